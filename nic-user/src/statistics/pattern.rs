//! Patterns of statistics' names: text with places in braces.
//!
//! | place | stands for |
//! | --- | --- |
//! | `{dir}` | `rx` or `tx`, in small or capital letters |
//! | `{n}` | a queue's number |
//! | `{other}` | a number that is no queue's |
//! | `{pad}` | one blank or more |
//! | `{c}` | the counter: anything, but something |

use super::model::Direction;

/// What the places of a pattern stand for in a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found<'n> {
    /// `{dir}`
    pub(super) direction: Option<Direction>,
    /// `{n}`
    pub(super) number: Option<u32>,
    /// `{c}`
    pub(super) counter: Option<&'n str>,
}

/// What a pattern finds in a name, if it is one of its.
pub(super) fn find<'n>(pattern: &str, name: &'n str) -> Option<Found<'n>> {
    let Some(place) = pattern.strip_prefix('{') else { return find_text(pattern, name) };
    let (place, rest) = place.split_once('}')?;
    match place {
        "dir" => {
            let (direction, after) = direction(name)?;
            Some(Found { direction: Some(direction), ..find(rest, after)? })
        }
        "n" => {
            let (digits, after) = digits(name)?;
            Some(Found { number: Some(digits.parse().ok()?), ..find(rest, after)? })
        }
        "other" => find(rest, digits(name)?.1),
        "pad" => find(rest, name.strip_prefix(' ')?.trim_start_matches(' ')),
        _ => find_counter(rest, name),
    }
}

/// A pattern that begins with text, or has come to its end.
fn find_text<'n>(pattern: &str, name: &'n str) -> Option<Found<'n>> {
    let (text, rest) = pattern.split_at(pattern.find('{').unwrap_or(pattern.len()));
    let after = name.strip_prefix(text)?;
    if !rest.is_empty() {
        return find(rest, after);
    }
    after.is_empty().then(Found::default)
}

/// The counter, and what the `rest` of the pattern finds behind it.
fn find_counter<'n>(rest: &str, name: &'n str) -> Option<Found<'n>> {
    let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
    ends.rev().filter_map(|end| name.split_at_checked(end)).find_map(|(counter, after)| {
        let found = find(rest, after).filter(|_| !counter.is_empty())?;
        Some(Found { counter: Some(counter), ..found })
    })
}

/// The direction that a name begins with, and what follows.
pub(super) fn direction(name: &str) -> Option<(Direction, &str)> {
    const SPELLINGS: [(&str, Direction); 6] = [
        ("rx", Direction::Rx),
        ("tx", Direction::Tx),
        ("Rx", Direction::Rx),
        ("Tx", Direction::Tx),
        ("RX", Direction::Rx),
        ("TX", Direction::Tx),
    ];
    let begins = |(spelling, direction)| Some((direction, name.strip_prefix(spelling)?));
    SPELLINGS.into_iter().find_map(begins)
}

/// The digits that a name begins with, and what follows.
fn digits(name: &str) -> Option<(&str, &str)> {
    let end = name.find(|character: char| !character.is_ascii_digit()).unwrap_or(name.len());
    Some(name.split_at(end)).filter(|(digits, _)| !digits.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, name: &'static str) -> Option<(Option<Direction>, u32, &'static str)> {
        let found = find(pattern, name)?;
        Some((found.direction, found.number?, found.counter.unwrap_or_default()))
    }

    #[test]
    fn places_stand_for_what_they_say() {
        let rx = Some(Direction::Rx);
        assert_eq!(found("{dir}_queue_{n}_{c}", "rx_queue_12_xdp_tx"), Some((rx, 12, "xdp_tx")));
        assert_eq!(found("{dir} ring{pad}{n} {c}", "Rx ring  3 frames"), Some((rx, 3, "frames")));
        assert_eq!(found("{c}[{n}]", "rx_bytes[7]"), Some((None, 7, "rx_bytes")));
        assert_eq!(found("{c}[Q-{n}]", "rx_bytes[Q-7]"), Some((None, 7, "rx_bytes")));
        assert_eq!(found("{n}_{other}: {c}", "4_1: xmit"), Some((None, 4, "xmit")));
    }

    #[test]
    fn what_does_not_fit_is_not_found() {
        for name in ["", "rx_queue_", "rx_queue_1", "rx_queue_1_", "rx_queue__x", "xx_queue_1_x"] {
            assert_eq!(found("{dir}_queue_{n}_{c}", name), None, "{name}");
        }
        assert_eq!(found("{dir}{n}_{c}", "rx4294967296_packets"), None);
        assert_eq!(found("{c}[{n}]", "[1]"), None);
        assert_eq!(found("{c}[{n}]", "größe[1]x"), None);
        assert_eq!(found("{c}[{n}]", "größe[1]"), Some((None, 1, "größe")));
    }
}
