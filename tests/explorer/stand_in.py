"""A worker that misbehaves on request: the protocol of `separatrix.explorer.worker`, without torch."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time


def main() -> None:
    views = [{"name": "stand-in", "title": "Stand-in", "says": "Does as it is told.", "default": {}}]
    print(json.dumps({"views": views}), flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        match question["asked"].get("do"):
            case "hang":
                if "begun" in question["asked"]:
                    open(question["asked"]["begun"], "w").close()
                time.sleep(600)
            case "wait":
                while not os.path.exists(question["asked"]["until"]):
                    time.sleep(0.01)
            case "die":
                os._exit(3)
            case "refuse":
                error = "It needs one thing; got another." + question["asked"].get("of", "")
                print(json.dumps({"status": 400, "error": error}), flush=True)
                continue
            case "large":
                question["asked"]["large"] = "x" * 7 * 2**20
        answer = {
            "view": question["view"],
            "asked": question["asked"],
            "process": os.getpid(),
            "place": tempfile.gettempdir(),
        }
        print(json.dumps({"status": 200, "answer": answer}), flush=True)


if __name__ == "__main__":
    main()
