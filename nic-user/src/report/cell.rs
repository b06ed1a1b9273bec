//! Text from elsewhere, made fit for one line of a terminal.

use super::text::escaped;

/// `text` in at most `columns` columns, without characters that control terminals: a name may have
/// any of them in it, and any length.
pub fn cell(text: &str, columns: usize) -> String {
    let text = escaped(text);
    if text.chars().count() <= columns {
        return text.into_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut() {
        assert_eq!(cell("größer", 6), "größer");
        assert_eq!(cell("größer", 5), "größ…");
        assert_eq!(cell("größer", 0), "…");
    }

    #[test]
    fn terminals_are_not_controlled() {
        assert_eq!(cell("a\x1b[31m\n", 20), "a\\u001b[31m\\n");
    }
}
