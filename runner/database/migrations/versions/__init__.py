"""The steps of the schema; the first four characters of a file are its revision."""
