"""Bounds for every server of ours: read `bounds` first; `http` applies them to uvicorn."""
