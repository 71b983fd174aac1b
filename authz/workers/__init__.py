"""Work that is done in processes of its own, because it could hold up everything else in this one."""
