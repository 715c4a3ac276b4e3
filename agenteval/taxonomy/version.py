"""The version of the explanations: `make format` renews it when a call gets another class."""

SHIPPED_VERSION = "7"  # stored with every run, with the names of plug-ins
EXPLAINED = "17dd9f81fbdbc9ec"  # digest of what it says, over examples and tests/corpus
