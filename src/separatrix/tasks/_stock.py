"""Invented people and places for the text tasks.

Names are made from two lists each, so that a few words give thousands; numbers that follow one another
differ in both parts for as long as possible, and a small stock still reads like a mixed one.
"""

from __future__ import annotations

from functools import cache
from typing import Final

__all__ = ["DAYS", "JOBS", "MOST_PEOPLE", "MOST_TOWNS", "RIVERS", "person", "town"]

_FIRST_NAMES: Final = """
Ada Amir Anouk Arvid Beata Bruno Carys Chidi Clara Dario Delia Edvin Elif Emil Esra Farid Femke Gita Gustav
Hana Hugo Ilse Imre Ines Ivo Jana Jonas Juno Kaito Karim Keira Lars Leila Lino Ludek Maeve Malik Mara Milo
Nadia Nils Noor Odile Omar Orla Pavel Petra Quinn Rafa Renske Rosa Ruben Sanne Soren Tamar Tariq Thea Ugo
Vera Viggo Wanda Yara Yusuf Zoë
"""
_SURNAMES: Final = """
Abara Adler Bakker Baptiste Barros Bennani Castell Chaudry Conde Dahl Demir Dorsey Ekström Eldridge Fabre
Falk Farouk Galli Grieve Haddad Halvorsen Hirano Ibarra Ivers Jansson Kaplan Kasprzak Keita Lambert
Lindqvist Lowe Maddox Marchetti Mbeki Moreau Nakata Navarro Novak Oduya Okafor Olsen Pardo Petrov Pryce
Quist Rahimi Rossi Saunders Sequeira Silva Tanaka Teague Toivonen Tveit Uchida Urban Vance Varga Wexler
Whitlock Xiang Yilmaz Zamora Zeller
"""
_TOWN_BEGINNINGS: Final = """
Alder Amber Ash Barrow Birch Black Bram Clay Cold Crane Dun Elm Fern Fox Glen Grey Hart Hazel Heron High
Iron Kings Lark Marl North Oak Pen Raven Rook Stone Thorn Wind
"""
_TOWN_ENDINGS: Final = """
bank beck bourne bridge brook burgh bury by cliff combe cote cross dale den field ford gate grove ham haven
hill holm hurst ley market mere mill minster mouth stead ton worth
"""
JOBS: Final = ("baker", "cellist", "dentist", "gardener", "notary", "potter", "welder")
RIVERS: Final = ("Tarn", "Wend", "Ysel", "Corr", "Lune", "Brae", "Mavis")
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

MOST_PEOPLE: Final = 64 * 64
MOST_TOWNS: Final = 32 * 32


@cache
def person(number: int) -> str:
    """Full name of person `number` of `MOST_PEOPLE`."""
    return " ".join(_pair(number, _FIRST_NAMES, _SURNAMES))


@cache
def town(number: int) -> str:
    """Name of town `number` of `MOST_TOWNS`."""
    return "".join(_pair(number, _TOWN_BEGINNINGS, _TOWN_ENDINGS))


def _pair(number: int, first_words: str, second_words: str) -> tuple[str, str]:
    firsts, seconds = first_words.split(), second_words.split()
    rounds, place = divmod(number, len(firsts))
    # An odd stride visits all of a list whose size is a power of two, and not in its alphabetic order.
    return firsts[place], seconds[(27 * place + rounds) % len(seconds)]
