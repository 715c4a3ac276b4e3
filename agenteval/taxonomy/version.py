"""The version of the explanations: `make format` renews it when a call gets another class."""

SHIPPED_VERSION = "6"  # stored with every run, with the names of plug-ins
EXPLAINED = "cbb9beaa63642a15"  # digest of what it says, over examples and tests/corpus
