//! What `nicctl show` prints on a terminal: one screen, unless the device is too large.

use std::io::{self, Write};

use super::{Shown, document::mac, queues};
use crate::{
    nic::{
        copybreak::{self, State},
        setting::{Access, Group, Key, Setting, Value},
    },
    report::{
        WIDTH,
        cell::cell,
        number, paragraph,
        style::Style,
        table::{Align, Table},
    },
};

/// Columns of the label in front of a paragraph.
const MARGIN: usize = 14;
/// Widest item of a paragraph, in columns.
const MAX_ITEM: usize = WIDTH - MARGIN - 1;
/// Widest name, value and remark in a table, in columns. With limits of ten digits, the widest
/// values do not fit beside the longest names; no setting has both.
const MAX_NAME: usize = 38;
const MAX_VALUE: usize = 20;
const MAX_REMARK: usize = 18;

/// Writes everything, or all settings of the groups requested.
pub(super) fn write(out: &mut dyn Write, style: Style, shown: &Shown) -> io::Result<()> {
    if !shown.groups.is_empty() {
        return write_groups(out, style, shown);
    }
    write_heading(out, style, shown)?;
    writeln!(out)?;
    write_limited(out, style, shown)?;
    writeln!(out)?;
    for group in [
        Group::Ring,
        Group::Channels,
        Group::Coalesce,
        Group::Pause,
        Group::PrivateFlag,
        Group::Rss,
    ] {
        let plain =
            shown.settings().filter(|(key, setting)| key.group == group && is_plain(setting));
        let items: Vec<_> = plain.map(|(key, setting)| item(key, setting)).collect();
        paragraph::write_items(out, style, (group.name(), MARGIN), &items)?;
    }
    write_features(out, style, shown)?;
    write_copybreak(out, style, shown)?;
    write_rules(out, style, shown)?;
    write_page_pools(out, style, shown)?;
    if !shown.survey.queues.is_empty() {
        writeln!(out)?;
        queues::write(out, style, &shown.survey)?;
    }
    write_notes(out, style, shown)
}

fn write_heading(out: &mut dyn Write, style: Style, shown: &Shown) -> io::Result<()> {
    let link = &shown.survey.link;
    let state = match (link.up, link.running) {
        (false, _) => "down",
        (true, false) => "up, no carrier",
        (true, true) => "up",
    };
    let mut items: Vec<String> = Vec::new();
    items.extend(link.kind.clone());
    items.push(format!("index {}", link.ifindex));
    items.extend(shown.netns.as_ref().map(|netns| format!("netns {netns}")));
    items.push(state.to_owned());
    items.extend(link.mac.map(mac));
    let margin = MARGIN.max(link.name.chars().count() + 1);
    paragraph::write_items(out, style, (&link.name, margin), &items)?;
    write_driver(out, style, shown)
}

fn write_driver(out: &mut dyn Write, style: Style, shown: &Shown) -> io::Result<()> {
    let Some(driver) = &shown.survey.driver else { return Ok(()) };
    let mut items = vec![format!("{} {}", driver.driver, driver.version)];
    let labelled = |label: &str, text: &str| (!text.is_empty()).then(|| format!("{label} {text}"));
    items.extend(labelled("firmware", &driver.firmware_version));
    items.extend(labelled("bus", &driver.bus_info));
    items.extend(shown.survey.node.map(|node| format!("NUMA node {node}")));
    paragraph::write_items(out, style, ("driver", MARGIN), &items)
}

/// A setting of which only the value is known.
const fn is_plain(setting: &Setting) -> bool {
    setting.min.is_none() && setting.max.is_none() && setting.default.is_none()
}

/// Settings shown with the queues they belong to, or in a form of their own.
fn is_shown_elsewhere(key: &Key) -> bool {
    match key.group {
        Group::Feature | Group::Copybreak | Group::Rps | Group::Xps | Group::Irq => true,
        Group::Napi => key.name.contains('/'),
        _ => false,
    }
}

/// The settings with limits or a default, as a table.
fn write_limited(out: &mut dyn Write, style: Style, shown: &Shown) -> io::Result<()> {
    let limited = shown.settings().filter(|(key, setting)| {
        // What each NAPI has for itself says something only where it differs from the device's.
        let differs = key.name.split_once('/').is_some_and(|(_, name)| {
            let of_device = shown.survey.settings.get(&Key::new(key.group, name));
            of_device.is_some_and(|of_device| of_device.value != setting.value)
        });
        !is_plain(setting) && (differs || !is_shown_elsewhere(key))
    });
    table(limited).write(out, style)
}

fn write_groups(out: &mut dyn Write, style: Style, shown: &Shown) -> io::Result<()> {
    if shown.settings().next().is_none() {
        let groups: Vec<_> = shown.groups.iter().map(|group| group.name()).collect();
        return writeln!(
            out,
            "{} has no settings of: {}",
            shown.survey.link.name,
            groups.join(", ")
        );
    }
    for group in Group::ALL {
        write_group(out, style, group, shown)?;
    }
    write_notes(out, style, shown)
}

fn write_group(out: &mut dyn Write, style: Style, group: Group, shown: &Shown) -> io::Result<()> {
    let settings = || shown.settings().filter(|(key, _)| key.group == group);
    if settings().next().is_none() {
        return Ok(());
    }
    match settings().all(|(_, setting)| is_plain(setting)) {
        true => plain_table(settings()).write(out, style),
        false => table(settings()).write(out, style),
    }
}

fn table<'a>(settings: impl Iterator<Item = (&'a Key, &'a Setting)>) -> Table<6> {
    let mut table = Table::new([
        ("SETTING", Align::Left),
        ("CURRENT", Align::Right),
        ("MIN", Align::Right),
        ("MAX", Align::Right),
        ("DEFAULT", Align::Right),
        ("", Align::Left),
    ]);
    let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    for (key, setting) in settings {
        table.push([
            cell(&key.to_string(), MAX_NAME),
            value(setting),
            number(setting.min),
            number(setting.max),
            cell(
                &setting.default.as_ref().map_or_else(|| "-".to_owned(), Value::to_string),
                MAX_VALUE,
            ),
            remark(setting),
        ]);
    }
    table
}

/// The settings of which only the values are known.
fn plain_table<'a>(settings: impl Iterator<Item = (&'a Key, &'a Setting)>) -> Table<3> {
    let mut table =
        Table::new([("SETTING", Align::Left), ("CURRENT", Align::Left), ("", Align::Left)]);
    for (key, setting) in settings {
        table.push([cell(&key.to_string(), MAX_NAME), value(setting), remark(setting)]);
    }
    table
}

fn value(setting: &Setting) -> String {
    cell(&setting.state().to_string(), MAX_VALUE)
}

/// What decides about a setting if not the user; otherwise its remark.
fn remark(setting: &Setting) -> String {
    match (&setting.access, &setting.note) {
        (Access::Fixed { by }, _) => format!("fixed: {by}"),
        (Access::ReadOnly, _) => "read-only".to_owned(),
        (Access::ReadWrite, Some(note)) => cell(note, MAX_REMARK),
        (Access::ReadWrite, None) => String::new(),
    }
}

fn item(key: &Key, setting: &Setting) -> String {
    match &setting.access {
        Access::ReadWrite => cell(&format!("{} {}", key.name, setting.state()), MAX_ITEM),
        _ => cell(&format!("{} {} ({})", key.name, setting.value, remark(setting)), MAX_ITEM),
    }
}

/// Features by state. Features that the driver lacks are only counted.
fn write_features(out: &mut dyn Write, style: Style, shown: &Shown) -> io::Result<()> {
    let features: Vec<_> =
        shown.settings().filter(|(key, _)| key.group == Group::Feature).collect();
    let in_state = |on: bool, is_free: bool| -> Vec<String> {
        features
            .iter()
            .filter(|(_, setting)| setting.value == Value::Switch(on))
            .filter(|(_, setting)| (setting.access == Access::ReadWrite) == is_free)
            .map(|(key, setting)| match &setting.requested {
                Some(requested) => format!("{} [requested {requested}]", key.name),
                None => key.name.clone(),
            })
            .collect()
    };
    paragraph::write_items(out, style, ("features on", MARGIN), &in_state(true, true))?;
    paragraph::write_items(out, style, ("features off", MARGIN), &in_state(false, true))?;
    paragraph::write_items(out, style, ("fixed on", MARGIN), &in_state(true, false))?;
    match in_state(false, false).len() {
        0 => Ok(()),
        count => {
            let text = format!("{count}; --group feature lists them");
            paragraph::write_text(out, style, ("fixed off", MARGIN), &text)
        }
    }
}

fn write_copybreak(out: &mut dyn Write, style: Style, shown: &Shown) -> io::Result<()> {
    let driver = shown.driver();
    let setting = |name| shown.survey.settings.get(&Key::new(Group::Copybreak, name));
    let facts = copybreak::facts(driver);
    let note = facts.map(|facts| facts.note).filter(|note| !note.is_empty());
    let mut text = match (copybreak::state(driver, setting("rx")), setting("rx")) {
        (State::Tunable, Some(rx)) => format!("rx {}, tunable{}", rx.value, limits(rx)),
        (State::Fixed, Some(rx)) => match &rx.access {
            Access::Fixed { by } => format!("rx {}, fixed by the {by}", rx.value),
            _ => format!("rx {}, fixed", rx.value),
        },
        (State::None, _) => "none".to_owned(),
        _ if driver.is_empty() => "none".to_owned(),
        _ => format!("not tunable; what {driver} copies is unknown"),
    };
    if let Some(note) = note {
        text.extend([": ", note]);
    }
    for name in ["tx", "tx-buf-size"] {
        if let Some(setting) = setting(name) {
            text.push_str(&format!("; {name} {}{}", setting.value, limits(setting)));
        }
    }
    paragraph::write_text(out, style, ("copybreak", MARGIN), &text)
}

/// ` (60 to 1024, default 256)`, as far as known.
fn limits(setting: &Setting) -> String {
    let mut parts = Vec::new();
    match (setting.min, setting.max) {
        (Some(min), Some(max)) => parts.push(format!("{min} to {max}")),
        (Some(min), None) => parts.push(format!("at least {min}")),
        (None, Some(max)) => parts.push(format!("at most {max}")),
        (None, None) => {}
    }
    parts.extend(setting.default.as_ref().map(|default| format!("default {default}")));
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

fn write_rules(out: &mut dyn Write, style: Style, shown: &Shown) -> io::Result<()> {
    match shown.survey.rules.len() {
        0 => Ok(()),
        count => {
            let text = format!("{count}; --json lists them");
            paragraph::write_text(out, style, ("flow rules", MARGIN), &text)
        }
    }
}

fn write_page_pools(out: &mut dyn Write, style: Style, shown: &Shown) -> io::Result<()> {
    let pools = &shown.survey.page_pools;
    if pools.is_empty() {
        return Ok(());
    }
    let sum = |of: fn(&_) -> u64| pools.iter().map(of).fold(0, u64::saturating_add);
    let items = [
        format!("{} pools", pools.len()),
        format!("{} pages out", sum(|pool| pool.inflight)),
        number::bytes(sum(|pool| pool.inflight_bytes)),
        format!("{} given up", pools.iter().filter(|pool| pool.detach_time.is_some()).count()),
    ];
    paragraph::write_items(out, style, ("page pools", MARGIN), &items)
}

fn write_notes(out: &mut dyn Write, style: Style, shown: &Shown) -> io::Result<()> {
    let has_interrupts = shown.survey.queues.iter().any(|queue| queue.interrupt.is_some());
    if let Some(pid) = shown.irqbalance.filter(|_| has_interrupts) {
        let text = format!("process {pid} moves interrupts between CPUs");
        paragraph::write_text(out, style, ("irqbalance", MARGIN), &text)?;
    }
    for note in &shown.survey.notes {
        paragraph::write_text(out, style, ("not read", MARGIN), note)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    fn text(shown: &Shown) -> String {
        let mut out = Vec::new();
        write(&mut out, Style::Plain, shown).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn whatever_a_card_has_fits_the_width() {
        let mut shown = fixture::large();
        for groups in [&[][..], &Group::ALL, &[Group::Rss], &[Group::Irq], &[Group::PrivateFlag]] {
            shown.groups = groups.to_vec();
            let text = text(&shown);
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
            assert!(!text.contains('\x1b'), "{text}");
        }
    }

    #[test]
    fn a_large_card_is_told_on_a_screen() {
        let text = text(&fixture::large());
        for line in [
            "enp129s0f1np1v9 index 4294967295, netns blue, up, no carrier, 02:00:00:00:00:01",
            "features on   rx-gro",
            "features off  rx-lro [requested on]",
            "fixed on      highdma",
            "fixed off     1; --group feature lists them",
            "copybreak     rx 512, tunable (at most 1500, default 256): packets of one",
            "flow rules    1; --json lists them",
            "page pools    2 pools, 512 pages out, 2.10 MB, 1 given up",
            "rx tx 0   8192  100  enp129s0f1np1v9-Tx-Rx-0   0     0     -           -",
            "40 more; --json has them all",
            "irqbalance    process 812 moves interrupts between CPUs",
            "not read      pause: EBUSY: Device or resource busy",
        ] {
            assert!(text.lines().any(|found| found.starts_with(line)), "{line}\n{text}");
        }
        assert!(text.lines().count() <= 60, "{text}");
        // Of two NAPIs, the one that is not as the device.
        assert!(text.contains("\nnapi.8194/gro-flush-timeout"), "{text}");
        assert!(!text.contains("napi.8193/"), "{text}");
    }

    #[test]
    fn copybreak_has_its_three_states() {
        let mut shown = fixture::large();
        let mut copybreak = |driver: &str, rx: Option<Setting>| {
            shown.survey.driver.as_mut().unwrap().driver = driver.to_owned();
            shown.survey.settings.retain(|key, _| key.group != Group::Copybreak);
            let key = Key::new(Group::Copybreak, "rx");
            shown.survey.settings.extend(rx.map(|rx| (key, rx)));
            let text = text(&shown);
            let mut lines = text.lines().filter(|line| line.starts_with("copybreak"));
            lines
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .skip(1)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let fixed = |by: &str| {
            Some(Setting { access: Access::Fixed { by: by.to_owned() }, ..Setting::new(256_u32) })
        };
        assert_eq!(copybreak("r8152", Some(Setting::new(128_u32))), "rx 128, tunable");
        assert_eq!(copybreak("tg3", fixed("driver")), "rx 256, fixed by the driver");
        assert_eq!(
            copybreak("e1000e", fixed("module parameter")),
            "rx 256, fixed by the module parameter"
        );
        assert_eq!(copybreak("vmxnet3", None), "none");
        assert_eq!(copybreak("new", None), "not tunable; what new copies is unknown");
    }
}
