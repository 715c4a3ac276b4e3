"""The version of the explanations: `make format` renews it when a call gets another class."""

SHIPPED_VERSION = "9"  # stored with every run, with the names of plug-ins
EXPLAINED = "0df2b9a259bb034b"  # digest of what it says, over examples and tests/corpus
