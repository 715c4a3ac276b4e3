"""The version of the explanations: `make format` renews it when a call gets another class."""

SHIPPED_VERSION = "11"  # stored with every run, with the names of plug-ins
EXPLAINED = "a1e0c9d302cd8ed0"  # digest of what it says, over examples and tests/corpus
