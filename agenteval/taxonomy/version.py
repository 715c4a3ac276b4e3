"""The version of the explanations: `make format` renews it when a call gets another class."""

SHIPPED_VERSION = "8"  # stored with every run, with the names of plug-ins
EXPLAINED = "14a92fe8ddb55d12"  # digest of what it says, over examples and tests/corpus
