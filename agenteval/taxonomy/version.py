"""The version of the explanations: `make format` renews it when a call gets another class."""

SHIPPED_VERSION = "10"  # stored with every run, with the names of plug-ins
EXPLAINED = "dc3639e473a26a60"  # digest of what it says, over examples and tests/corpus
