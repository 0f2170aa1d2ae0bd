"""``python -m rtx_jax`` is the rtx-jax command."""

from .cli import main

if __name__ == "__main__":
    main()
