"""Damage of files."""

import os


def cut(file):
    os.truncate(file, file.stat().st_size // 2)
