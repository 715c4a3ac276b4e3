"""Why a call was denied: one block for each failure class."""
