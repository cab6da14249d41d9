"""The engine of a cluster: jobs as Ray tasks on any node, results into one store."""
