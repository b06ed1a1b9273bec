//! Counting what passed, out of what `cargo test -- --show-output` prints.

use std::fmt;

/// How many tests or steps passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: u32,
    pub failed: u32,
    pub skipped: u32,
}

impl Tally {
    /// One step that passed.
    pub const PASSED: Self = Self { passed: 1, failed: 0, skipped: 0 };
    /// One step that failed.
    pub const FAILED: Self = Self { passed: 0, failed: 1, skipped: 0 };
    /// One step that was skipped.
    pub const SKIPPED: Self = Self { passed: 0, failed: 0, skipped: 1 };

    /// Adds what another step gave.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, skipped } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// The output of test programs, read line by line.
#[derive(Default)]
pub struct Output {
    /// What the programs that have ended gave.
    pub tally: Tally,
    /// Tests of the running program that skipped themselves; its summary takes them for passed.
    skipped: u32,
    /// Whether the line belongs to what passed tests have printed.
    of_passed: bool,
}

impl Output {
    /// Takes in the next line and says whether it is worth showing: what passed is not.
    pub fn read(&mut self, line: &str) -> bool {
        if line.starts_with("skipped: ") {
            self.skipped += 1;
            return true;
        }
        if let Some(summary) = line.strip_prefix("test result: ") {
            self.end(summary);
            return true;
        }
        match line {
            "successes:" => self.of_passed = true,
            "failures:" => self.of_passed = false,
            _ => {}
        }
        let passed = line.starts_with("test ") && line.ends_with(" ... ok");
        !self.of_passed && !passed
    }

    fn end(&mut self, summary: &str) {
        let number = |what: &str| {
            let words: Vec<&str> =
                summary.split([' ', ';']).filter(|word| !word.is_empty()).collect();
            let at = words.iter().position(|word| *word == what).and_then(|at| at.checked_sub(1));
            at.and_then(|at| words[at].parse().ok()).unwrap_or(0)
        };
        let passed: u32 = number("passed");
        self.tally.add(Tally {
            passed: passed.saturating_sub(self.skipped),
            failed: number("failed"),
            skipped: self.skipped + number("ignored"),
        });
        self.skipped = 0;
        self.of_passed = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_PROGRAMS: &str = "\
running 3 tests
test a ... ok
test b ... ok
test c ... ignored

successes:

---- b stdout ----
skipped: needs root

successes:
    a
    b

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

running 2 tests
test d ... FAILED
test e ... ok

successes:

---- e stdout ----
a word of e

successes:
    e

failures:

---- d stdout ----
why d failed

failures:
    d

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";

    #[test]
    fn adds_up_programs_and_counts_a_test_that_skips_itself_as_skipped() {
        let mut output = Output::default();
        for line in TWO_PROGRAMS.lines() {
            output.read(line);
        }
        assert_eq!(output.tally, Tally { passed: 2, failed: 1, skipped: 2 });
        assert_eq!(output.tally.to_string(), "2 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn shows_failures_and_skips_and_hides_what_passed() {
        let mut output = Output::default();
        let shown: Vec<&str> = TWO_PROGRAMS.lines().filter(|line| output.read(line)).collect();
        assert!(shown.contains(&"skipped: needs root"));
        assert!(shown.contains(&"test d ... FAILED"));
        assert!(shown.contains(&"why d failed"));
        assert!(!shown.contains(&"a word of e"));
        assert!(!shown.contains(&"test a ... ok"));
    }
}
