"""work/, where learners keep their copies: copies.py makes and keeps them, commands.py is lab, start and reset."""
