"""What the shape cannot say: references, contradictions and traps across the sections of a document."""

from policy.fault import Fault
from policy.gateway import Document
from policy.tree import Tree


def check_document(document: Document, tree: Tree) -> list[Fault]:
    return []
