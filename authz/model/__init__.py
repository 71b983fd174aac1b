"""Value types: frozen, slotted, keyword-only. Nothing here decides, reads or writes."""
