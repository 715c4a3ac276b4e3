"""Who plays: a served model over HTTP, or a simulated one behind the same wire."""
