"""Pure: values in, values out. No I/O, no clock, no chance, no async."""
