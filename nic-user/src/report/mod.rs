//! What output has in common: tables, numbers for people, JSON documents, colour.

pub mod cell;
pub mod json;
pub mod number;
pub mod paragraph;
pub mod style;
pub mod table;
pub mod terminal;
pub mod text;
pub mod time;

/// Widest line of any table, in columns.
pub const WIDTH: usize = 80;
