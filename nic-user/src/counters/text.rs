//! What `nicctl stats` shows on a terminal: at most [`WIDTH`] columns, whatever the numbers.

use std::{
    array,
    io::{self, Write},
};

use nic_common::policy::Verdict;

use super::{
    Queues, Sides, Snapshot,
    model::{Bin, header_bins, size_bins},
    rates::{Rate, Rates, SideRates},
};
use crate::report::{
    WIDTH,
    cell::cell,
    number, paragraph,
    style::Style,
    table::{Align, Table},
    time::rfc3339,
};

/// With more queues than this, idle ones that follow each other share a line.
const UNFOLDED: usize = 8;
/// Columns of the word in front of a paragraph.
const LABEL: usize = 9;
/// Columns of the longest bar: what the other columns of a histogram leave.
const BAR: usize = 48;

/// Writes the counters of an interface: queues, total, and what follows from them.
///
/// # Errors
///
/// What writing to `out` ends in.
pub fn write_counters(
    out: &mut dyn Write,
    style: Style,
    snapshot: &Snapshot,
    queues: &Queues,
) -> io::Result<()> {
    let since = format!("since {}", rfc3339(snapshot.attached_at));
    write_heading(out, style, snapshot, &since)?;
    let policy = snapshot.policy;
    let split = if policy.split { "on" } else { "off" };
    let (copybreak, linear) = (policy.rx_copybreak, policy.max_linear);
    writeln!(out, "rx-copybreak {copybreak}, max-linear {linear}, split {split}")?;
    counter_table(snapshot, queues).write(out, style)?;
    if let Some(why) = snapshot.not_at_xdp {
        let missing = format!(
            "verdicts, lengths, malformed, tunnelled and tagged frames: {why}; RX is \
             counted at TC ingress, after GRO"
        );
        paragraph::write_text(out, style, ("missing", LABEL), &missing)?;
    }
    for (label, items) in paragraphs(&queues.total) {
        paragraph::write_items(out, style, (label, LABEL), &items)?;
    }
    if let Some(why) = snapshot.tx_queue_guess {
        let guess = format!("TX queues are a guess: {why}");
        paragraph::write_text(out, style, ("guess", LABEL), &guess)?;
    }
    Ok(())
}

/// Writes the rates of an interface.
///
/// # Errors
///
/// What writing to `out` ends in.
pub fn write_rates(
    out: &mut dyn Write,
    style: Style,
    snapshot: &Snapshot,
    queues: &Queues,
    rates: &Rates,
) -> io::Result<()> {
    let over = format!("over {} s", average(rates.interval.as_secs_f64()));
    write_heading(out, style, snapshot, &over)?;
    rate_table(queues, rates).write(out, style)
}

/// Writes the histograms of frame and header lengths; nothing of frames that there were not.
///
/// # Errors
///
/// What writing to `out` ends in.
pub fn write_histograms(out: &mut dyn Write, style: Style, queues: &Queues) -> io::Result<()> {
    let rx = &queues.total.rx;
    for (title, bins) in [("FRAME LENGTH", size_bins(rx)), ("HEADER LENGTH", header_bins(rx))] {
        if let Some(table) = histogram(title, &bins) {
            writeln!(out)?;
            table.write(out, style)?;
        }
    }
    Ok(())
}

fn write_heading(
    out: &mut dyn Write,
    style: Style,
    snapshot: &Snapshot,
    when: &str,
) -> io::Result<()> {
    let (name, mode) = (cell(&snapshot.name, 32), cell(&snapshot.mode, 10));
    writeln!(out, "{}  {mode}  {when}", style.bold(name))?;
    match &snapshot.netns {
        Some(netns) => writeln!(out, "netns {}", cell(netns, WIDTH - 6)),
        None => Ok(()),
    }
}

fn counter_table(snapshot: &Snapshot, queues: &Queues) -> Table<8> {
    const TITLES: [&str; 8] =
        ["QUEUE", "RX PACKETS", "RX BYTES", "COPY", "SPLIT", "WHOLE", "TX PACKETS", "TX BYTES"];
    let cells = |label: String, sides: &Sides| {
        let (packets, bytes, verdict): (_, _, &dyn Fn(Verdict) -> String) =
            match snapshot.not_at_xdp {
                None => (sides.rx.packets(), sides.rx.bytes, &|verdict| {
                    number::count(sides.rx.verdict(verdict))
                }),
                Some(_) => (sides.ingress.packets, sides.ingress.bytes, &|_| "-".into()),
            };
        [
            label,
            number::count(packets),
            number::bytes(bytes),
            verdict(Verdict::Copy),
            verdict(Verdict::Split),
            verdict(Verdict::Whole),
            number::count(sides.tx.packets),
            number::bytes(sides.tx.bytes),
        ]
    };
    let rows = queues.rows.iter().map(|(queue, sides)| Row {
        queue: *queue,
        idle: sides.is_idle(),
        cells: cells(queue.to_string(), sides),
    });
    queue_table(TITLES, rows.collect(), cells("total".into(), &queues.total))
}

fn rate_table(queues: &Queues, rates: &Rates) -> Table<5> {
    const TITLES: [&str; 5] = ["QUEUE", "RX PACKETS", "RX BITS", "TX PACKETS", "TX BITS"];
    let packets = |rate: Option<Rate>| known(rate.map(|rate| rate.packets), "pps");
    let bits = |rate: Option<Rate>| known(rate.map(|rate| rate.bits), "bit/s");
    let cells = |label: String, SideRates { rx, tx }: SideRates| {
        [label, packets(rx), bits(rx), packets(tx), bits(tx)]
    };
    let quiet = Some(Rate::default());
    let rows = queues.rows.iter().map(|(queue, _)| {
        let rates = rates.queue(*queue);
        let idle = rates.rx == quiet && rates.tx == quiet;
        Row { queue: *queue, idle, cells: cells(queue.to_string(), rates) }
    });
    queue_table(TITLES, rows.collect(), cells("total".into(), rates.total(queues)))
}

fn known(rate: Option<f64>, unit: &str) -> String {
    rate.map_or_else(|| "-".into(), |rate| number::per_second(rate, unit))
}

/// The line of one queue.
struct Row<const N: usize> {
    queue: u32,
    idle: bool,
    cells: [String; N],
}

fn queue_table<const N: usize>(
    titles: [&'static str; N],
    rows: Vec<Row<N>>,
    total: [String; N],
) -> Table<N> {
    let mut table = Table::new(titles.map(|title| (title, Align::Right)));
    let folds = rows.len() > UNFOLDED;
    for run in rows.chunk_by(|one, next| folds && one.idle && next.idle) {
        match run {
            [first, .., last] => table.push(idle_run(first.queue, last.queue)),
            run => run.iter().for_each(|row| table.push(row.cells.clone())),
        }
    }
    table.push(total);
    table
}

fn idle_run<const N: usize>(first: u32, last: u32) -> [String; N] {
    array::from_fn(|column| match column {
        0 => format!("{first}-{last}"),
        1 => "idle".into(),
        _ => String::new(),
    })
}

/// What follows from the sums: a word and what there is to say about it.
fn paragraphs(total: &Sides) -> [(&'static str, Vec<String>); 4] {
    [
        ("rx", rx_items(total)),
        ("frames", frame_items(total)),
        ("ingress", ingress_items(total)),
        ("tx", tx_items(total)),
    ]
}

fn rx_items(total: &Sides) -> Vec<String> {
    let packets = total.rx.packets();
    let verdict = |verdict: Verdict| {
        let share = number::share(total.rx.verdict(verdict), packets);
        (packets > 0).then(|| format!("{share} {}", verdict.name()))
    };
    let averages = [
        total.spared_share().map(|share| format!("{} of the bytes not copied", percent(share))),
        total.rx_size().map(|size| format!("average {} B", average(size))),
        total.rx_header_length().map(|len| format!("headers {} B", average(len))),
    ];
    Verdict::ALL.map(verdict).into_iter().chain(averages).flatten().collect()
}

/// Frames that are out of the ordinary.
fn frame_items(total: &Sides) -> Vec<String> {
    let rx = &total.rx;
    nonzero([
        (rx.malformed, "malformed"),
        (rx.unparsed, "unparsed"),
        (rx.no_metadata, "without metadata"),
        (rx.fragments, "IP fragments"),
        (rx.tunnelled, "tunnelled"),
        (rx.vlan, "with VLAN tag"),
        (rx.redirected, "to rings"),
    ])
}

/// What GRO made of the frames, and what kept it from merging them by fragments.
fn ingress_items(total: &Sides) -> Vec<String> {
    let ingress = &total.ingress;
    let averages = [
        total.gro_segments().map(|n| format!("{} segments per GRO packet", average(n))),
        (ingress.largest > 0).then(|| format!("largest {} B", ingress.largest)),
        total
            .linear_payload_share()
            .map(|share| format!("{} of the payload in the linear part", percent(share))),
    ];
    let pulled =
        nonzero([(ingress.pulled, "pulled"), (ingress.pull_failed, "could not be pulled")]);
    averages.into_iter().flatten().chain(pulled).collect()
}

fn tx_items(total: &Sides) -> Vec<String> {
    let averages = [
        total.tx_size().map(|size| format!("average {} B", average(size))),
        total.tx_header_length().map(|len| format!("headers {} B", average(len))),
        total.gso_tcp_segments().map(|n| format!("{} segments per TCP GSO packet", average(n))),
        total.gso_udp_segments().map(|n| format!("{} per UDP GSO packet", average(n))),
    ];
    let over = nonzero([(total.tx.over_64k, "over 64 KiB")]);
    averages.into_iter().flatten().chain(over).collect()
}

fn nonzero<const N: usize>(counts: [(u64, &str); N]) -> Vec<String> {
    let nonzero = counts.into_iter().filter(|(count, _)| *count > 0);
    nonzero.map(|(count, what)| format!("{} {what}", number::count(count))).collect()
}

/// With one decimal, for as long as that says something.
fn average(value: f64) -> String {
    if value < 1e6 { format!("{value:.1}") } else { number::per_second(value, "") }
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// The bins from the first to the last that has frames, each with a bar.
fn histogram(title: &'static str, bins: &[Bin]) -> Option<Table<4>> {
    let has_frames = |bin: &Bin| bin.packets > 0;
    let (first, last) = (bins.iter().position(has_frames)?, bins.iter().rposition(has_frames)?);
    let bins = bins.get(first..=last)?;
    let all = bins.iter().fold(0, |all: u64, bin| all.saturating_add(bin.packets));
    let most = bins.iter().map(|bin| bin.packets).max()?;
    let right = |title| (title, Align::Right);
    let columns = [right(title), right("FRAMES"), right("SHARE"), ("", Align::Left)];
    let mut table = Table::new(columns);
    for bin in bins {
        table.push([
            bin.to.map_or_else(|| format!("{}+", bin.from), |to| format!("{}-{to}", bin.from)),
            number::count(bin.packets),
            number::share(bin.packets, all),
            "#".repeat(bar(bin.packets, most)),
        ]);
    }
    Some(table)
}

/// The length of a bar. One frame is enough to be seen.
fn bar(packets: u64, most: u64) -> usize {
    let exact = u128::from(packets) * BAR as u128;
    exact.div_ceil(u128::from(most).max(1)).try_into().unwrap_or(BAR)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::{prelude::ProptestConfig, prop_assert, proptest};

    use super::*;
    use crate::counters::fixtures;

    fn counters(snapshot: &Snapshot) -> String {
        let (mut out, queues) = (Vec::new(), snapshot.queues(None).unwrap());
        write_counters(&mut out, Style::Plain, snapshot, &queues).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn histograms(snapshot: &Snapshot) -> String {
        let (mut out, queues) = (Vec::new(), snapshot.queues(None).unwrap());
        write_histograms(&mut out, Style::Plain, &queues).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn rates(before: &Snapshot, after: &Snapshot) -> String {
        let (mut out, queues) = (Vec::new(), after.queues(None).unwrap());
        let rates = Rates::between(before, after);
        write_rates(&mut out, Style::Plain, after, &queues, &rates).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn idle() {
        let idle = fixtures::snapshot("eth7", 2, 1);
        insta::assert_snapshot!(counters(&idle), @r#"
        eth7  native  since 2024-12-31T23:59:59Z
        rx-copybreak 256, max-linear 256, split on
        QUEUE  RX PACKETS  RX BYTES  COPY  SPLIT  WHOLE  TX PACKETS  TX BYTES
            0           0       0 B     0      0      0           0       0 B
            1           0       0 B     0      0      0           0       0 B
        total           0       0 B     0      0      0           0       0 B
        "#);
        assert_eq!(histograms(&idle), "");
    }

    #[test]
    fn busy() {
        let mut busy = fixtures::busy();
        busy.netns = Some("blue".to_owned());
        insta::assert_snapshot!(counters(&busy), @r#"
        eth7  native  since 2024-12-31T23:59:59Z
        netns blue
        rx-copybreak 256, max-linear 256, split on
        QUEUE  RX PACKETS  RX BYTES    COPY   SPLIT  WHOLE  TX PACKETS  TX BYTES
            0      1.33 M   1.88 GB  98.8 k  1.23 M      0      54.3 k   2.22 GB
            1      2.67 M   3.75 GB   198 k  2.47 M      0       109 k   4.44 GB
            2      4.00 M   5.63 GB   296 k  3.70 M      0       163 k   6.67 GB
            3      5.33 M   7.50 GB   395 k  4.94 M      0       217 k   8.89 GB
        total      13.3 M   18.8 GB   988 k  12.3 M      0       543 k   22.2 GB
        rx       7.4% copy, 92.6% split, 0.0% whole, 96.1% of the bytes not copied,
                 average 1406.7 B, headers 54.0 B
        frames   2 malformed, 17 IP fragments
        ingress  12.3 segments per GRO packet, largest 65230 B,
                 0.5% of the payload in the linear part
        tx       average 40909.1 B, headers 66.0 B, 37.5 segments per TCP GSO packet,
                 20.0 per UDP GSO packet, 120 over 64 KiB
        "#);
    }

    #[test]
    fn what_is_missing_and_what_is_guessed_is_said() {
        let mut lacking = fixtures::snapshot("eth7", 1, 2);
        (lacking.mode, lacking.not_at_xdp) = ("tc".to_owned(), Some("tc mode has no XDP program"));
        lacking.tx_queue_guess = Some("TC egress runs before the queue is picked");
        (lacking.ingress[0].packets, lacking.ingress[0].bytes) = (3, 4500);
        insta::assert_snapshot!(counters(&lacking), @r#"
        eth7  tc  since 2024-12-31T23:59:59Z
        rx-copybreak 256, max-linear 256, split on
        QUEUE  RX PACKETS  RX BYTES  COPY  SPLIT  WHOLE  TX PACKETS  TX BYTES
            0           3   4.50 kB     -      -      -           0       0 B
            1           0       0 B     -      -      -           0       0 B
        total           3   4.50 kB     -      -      -           0       0 B
        missing  verdicts, lengths, malformed, tunnelled and tagged frames: tc mode has
                 no XDP program; RX is counted at TC ingress, after GRO
        ingress  0.0% of the payload in the linear part
        guess    TX queues are a guess: TC egress runs before the queue is picked
        "#);
    }

    #[test]
    fn busy_histograms() {
        insta::assert_snapshot!(histograms(&fixtures::busy()).trim_start(), @r#"
        FRAME LENGTH  FRAMES  SHARE
              64-127   988 k   7.4%  ####
             128-191       0   0.0%
             192-255       0   0.0%
             256-319       0   0.0%
             320-383       0   0.0%
             384-447       0   0.0%
             448-511       0   0.0%
             512-575       0   0.0%
             576-639       0   0.0%
             640-703       0   0.0%
             704-767       0   0.0%
             768-831       0   0.0%
             832-895       0   0.0%
             896-959       0   0.0%
            960-1023       0   0.0%
           1024-1087       0   0.0%
           1088-1151       0   0.0%
           1152-1215       0   0.0%
           1216-1279       0   0.0%
           1280-1343       0   0.0%
           1344-1407       0   0.0%
           1408-1471       0   0.0%
           1472-1535  12.3 M  92.6%  ################################################

        HEADER LENGTH  FRAMES   SHARE
                48-55  13.3 M  100.0%  ################################################
        "#);
    }

    #[test]
    fn idle_queues_share_a_line() {
        insta::assert_snapshot!(counters(&fixtures::mostly_idle()), @r#"
        eth7  native  since 2024-12-31T23:59:59Z
        rx-copybreak 256, max-linear 256, split on
        QUEUE  RX PACKETS  RX BYTES  COPY   SPLIT  WHOLE  TX PACKETS  TX BYTES
            0      1.00 k   1.51 MB     0  1.00 k      0          10     660 B
            1      1.00 k   1.51 MB     0  1.00 k      0          10     660 B
          2-8        idle
            9      1.00 k   1.51 MB     0  1.00 k      0          10     660 B
        10-63        idle
        total      3.00 k   4.54 MB     0  3.00 k      0          30   1.98 kB
        rx       0.0% copy, 100.0% split, 0.0% whole, 96.4% of the bytes not copied,
                 average 1514.0 B, headers 54.0 B
        tx       average 66.0 B, headers 0.0 B
        "#);
    }

    #[test]
    fn more_transmit_than_receive_queues() {
        let mut lopsided = fixtures::snapshot("eth7", 1, 3);
        lopsided.rx[0] = fixtures::rx(3, 1000);
        lopsided.tx[2].packets = 5;
        lopsided.tx[2].bytes = 330;
        insta::assert_snapshot!(counters(&lopsided), @r#"
        eth7  native  since 2024-12-31T23:59:59Z
        rx-copybreak 256, max-linear 256, split on
        QUEUE  RX PACKETS  RX BYTES  COPY  SPLIT  WHOLE  TX PACKETS  TX BYTES
            0           3   3.00 kB     0      3      0           0       0 B
            1           0       0 B     0      0      0           0       0 B
            2           0       0 B     0      0      0           5     330 B
        total           3   3.00 kB     0      3      0           5     330 B
        rx       0.0% copy, 100.0% split, 0.0% whole, 94.6% of the bytes not copied,
                 average 1000.0 B, headers 54.0 B
        tx       average 66.0 B, headers 0.0 B
        "#);
    }

    #[test]
    fn as_large_as_it_gets() {
        insta::assert_snapshot!(counters(&fixtures::huge()), @r#"
        eth7  native  since 2024-12-31T23:59:59Z
        rx-copybreak 256, max-linear 256, split on
        QUEUE  RX PACKETS  RX BYTES    COPY   SPLIT   WHOLE  TX PACKETS  TX BYTES
            0      18.4 E   18.4 EB  18.4 E  18.4 E  18.4 E      18.4 E   18.4 EB
            1      18.4 E   18.4 EB  18.4 E  18.4 E  18.4 E      18.4 E   18.4 EB
        total      18.4 E   18.4 EB  18.4 E  18.4 E  18.4 E      18.4 E   18.4 EB
        rx       100.0% copy, 100.0% split, 100.0% whole, 0.0% of the bytes not copied,
                 average 1.0 B, headers 1.0 B
        frames   18.4 E malformed, 18.4 E unparsed, 18.4 E without metadata,
                 18.4 E IP fragments, 18.4 E tunnelled, 18.4 E with VLAN tag,
                 18.4 E to rings
        ingress  1.0 segments per GRO packet, largest 18446744073709551615 B,
                 100.0% of the payload in the linear part, 18.4 E pulled,
                 18.4 E could not be pulled
        tx       average 1.0 B, headers 1.0 B, 1.0 segments per TCP GSO packet,
                 1.0 per UDP GSO packet, 18.4 E over 64 KiB
        "#);
    }

    #[test]
    fn rates_of_idle_busy_and_unknown_queues() {
        let before = fixtures::mostly_idle();
        let mut after = before.clone();
        after.taken_at += Duration::from_millis(500);
        after.rx[0] = fixtures::rx(1_200_000, 1514);
        after.rx[9] = fixtures::rx(3, 60);
        after.tx[63].packets = 7;
        insta::assert_snapshot!(rates(&before, &after), @r#"
        eth7  native  over 0.5 s
        QUEUE  RX PACKETS      RX BITS  TX PACKETS  TX BITS
            0   2.40 Mpps  29.0 Gbit/s       0 pps  0 bit/s
          1-8        idle
            9           -            -       0 pps  0 bit/s
        10-62        idle
           63       0 pps      0 bit/s      14 pps  0 bit/s
        total           -            -      14 pps  0 bit/s
        "#);
    }

    #[test]
    fn names_cannot_reach_the_terminal() {
        let mut odd = fixtures::snapshot("\x1b[2Jeth", 1, 1);
        odd.netns = Some("long".repeat(40));
        let text = counters(&odd);
        assert!(text.starts_with("\\u001b[2Jeth  native"), "{text}");
        assert!(!text.contains('\x1b'));
        let netns = format!("netns {}l…", "long".repeat(18));
        assert_eq!(text.lines().nth(1), Some(netns.as_str()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_line_is_too_wide(
            before in fixtures::any(),
            after in fixtures::any(),
            interval in 0..=u32::MAX,
        ) {
            let mut after = after;
            after.taken_at = before.taken_at + Duration::from_millis(interval.into());
            let text = counters(&after) + &histograms(&after) + &rates(&before, &after);
            for line in text.lines() {
                prop_assert!(line.chars().count() <= WIDTH, "{line}");
            }
        }
    }
}
