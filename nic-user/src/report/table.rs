//! Tables of text: a heading, rows, columns two spaces apart.

use std::io::{self, Write};

use super::{style::Style, text::escaped};

/// How a column is aligned: words left, numbers right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of `N` columns, each as wide as its widest cell.
#[derive(Clone, Debug)]
pub struct Table<const N: usize> {
    columns: [(&'static str, Align); N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// An empty table with these headings.
    pub const fn new(columns: [(&'static str, Align); N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row. A cell may have anything in it.
    pub fn push(&mut self, row: [String; N]) {
        self.rows.push(row.map(|cell| escaped(&cell).into_owned()));
    }

    /// Writes heading and rows, without trailing spaces.
    ///
    /// # Errors
    ///
    /// What writing to `out` ends in.
    pub fn write(&self, out: &mut dyn Write, style: Style) -> io::Result<()> {
        let widths = self.widths();
        let titles = self.columns.map(|(title, _)| title);
        writeln!(out, "{}", style.bold(self.line(&titles, &widths)))?;
        for row in &self.rows {
            writeln!(out, "{}", self.line(&row.each_ref().map(String::as_str), &widths))?;
        }
        Ok(())
    }

    fn widths(&self) -> [usize; N] {
        let mut widths = self.columns.map(|(title, _)| title.chars().count());
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        widths
    }

    fn line(&self, cells: &[&str; N], widths: &[usize; N]) -> String {
        let mut line = String::new();
        for ((cell, width), (_, align)) in cells.iter().zip(widths).zip(self.columns) {
            let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
            match align {
                Align::Left => line.extend([cell, padding.as_str(), "  "]),
                Align::Right => line.extend([padding.as_str(), cell, "  "]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new([("NAME", Align::Left), ("N", Align::Right)]);
        table.push(["lo".into(), "1234".into()]);
        table.push(["größer".into(), "5".into()]);
        let mut out = Vec::new();
        table.write(&mut out, Style::Plain).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "NAME       N\nlo      1234\ngrößer     5\n");
    }

    #[test]
    fn a_cell_is_no_row() {
        let mut table = Table::new([("NAME", Align::Left)]);
        table.push(["lo\neth0\x1b[A".into()]);
        let mut out = Vec::new();
        table.write(&mut out, Style::Plain).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "NAME\nlo\\neth0\\u001b[A\n");
    }
}
