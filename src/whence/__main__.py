"""python -m whence: the command line."""

from whence.cli import main

main()
