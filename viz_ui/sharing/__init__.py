"""With whom the server is shared: the settings, and the door that every request comes through."""
