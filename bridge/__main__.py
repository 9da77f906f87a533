"""`python -m bridge`: the same command as `bridge`."""

from bridge.cli import main

if __name__ == "__main__":
    main()
