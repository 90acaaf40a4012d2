"""`python -m posttrain.cli` is `posttrain`."""

from posttrain.cli import main

if __name__ == "__main__":
    main()
