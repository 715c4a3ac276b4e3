"""The version of the explanations: `make format` renews it when a call gets another class."""

SHIPPED_VERSION = "12"  # stored with every run, with the names of plug-ins
EXPLAINED = "6f66460a7b51c28c"  # digest of what it says, over examples and tests/corpus
