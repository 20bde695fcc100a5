from tests.answers.conftest import claimed, registry, root

__all__ = ["claimed", "registry", "root"]
