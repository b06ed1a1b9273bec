//! Paragraphs: a label in the margin, and items that fill lines beside it.

use std::io::{self, Write};

use super::{WIDTH, style::Style, text::escaped};

/// Writes `items`, separated by commas, in lines of at most [`WIDTH`] columns beside a margin of
/// `margin` columns; nothing without items.
///
/// # Errors
///
/// What writing to `out` ends in.
pub fn write_items(
    out: &mut dyn Write,
    style: Style,
    (label, margin): (&str, usize),
    items: &[String],
) -> io::Result<()> {
    let last = items.len().saturating_sub(1);
    let with_comma = |(index, item): (usize, &String)| match index {
        _ if index == last => item.clone(),
        _ => format!("{item},"),
    };
    write(out, style, (label, margin), items.iter().enumerate().map(with_comma))
}

/// Writes the words of `text` like [`write_items`].
///
/// # Errors
///
/// What writing to `out` ends in.
pub fn write_text(
    out: &mut dyn Write,
    style: Style,
    (label, margin): (&str, usize),
    text: &str,
) -> io::Result<()> {
    write(out, style, (label, margin), text.split_whitespace().map(str::to_owned))
}

fn write(
    out: &mut dyn Write,
    style: Style,
    (label, margin): (&str, usize),
    words: impl Iterator<Item = String>,
) -> io::Result<()> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        let word = escaped(&word).into_owned();
        match lines.last_mut() {
            Some(line) if margin + width(line) + 1 + width(&word) <= WIDTH => {
                line.extend([" ", &word]);
            }
            _ => lines.push(word),
        }
    }
    for (index, line) in lines.iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        writeln!(out, "{}{line}", style.bold(format_args!("{label:<margin$}")))?;
    }
    Ok(())
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn items_fill_lines_beside_the_label() {
        let items: Vec<_> = (0..20).map(|number| format!("item {number}")).collect();
        let text = written(|out| write_items(out, Style::Plain, ("label", 8), &items));
        assert!(text.starts_with("label   item 0, item 1,"), "{text}");
        assert!(text.ends_with(", item 19\n"), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("        item")), "{text}");
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn without_items_there_is_no_label() {
        assert_eq!(written(|out| write_items(out, Style::Plain, ("label", 8), &[])), "");
    }

    #[test]
    fn a_text_is_broken_between_words() {
        let text = written(|out| write_text(out, Style::Plain, ("note", 6), &"word ".repeat(20)));
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| line.len() <= WIDTH && !line.ends_with(' ')), "{text}");
    }
}
