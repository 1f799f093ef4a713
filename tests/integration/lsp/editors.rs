//! Real editors, where they are installed.
