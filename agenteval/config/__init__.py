"""What the user wrote: models, scenarios and allow lists, read and checked."""
