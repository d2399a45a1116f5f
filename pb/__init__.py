"""Messages generated from proto/ by `make proto`. Nobody edits them; only wire.py and service.py import them."""
