//! `nicctl bench` over two cards of this machine: it runs, and they come back as they were.

use std::{collections::BTreeMap, net::IpAddr};

use nic_user::{
    netlink::{link::Links, route::Routes},
    nic::{Nic, setting::Value, settings},
};
use serde_json::Value as Json;

use crate::{
    Outcome, card,
    control::{self, Place},
    nicctl,
};

const EXPERIMENTS: [&str; 2] = ["udp-gso", "rx-build"];
/// The least that there is: figures of an emulated machine mean nothing.
const LEAST: [&str; 4] = ["--rounds", "5", "--time", "0.05"];

pub fn it_runs_over_cards_and_gives_them_back(driver: &str) -> Outcome {
    let cards = card::pair(driver).unwrap();
    let [tx, rx] = cards.map(|card| Nic::by_index(card).unwrap().name().to_owned());
    use_a_little(cards);
    let before = cards.map(State::read);

    let over = ["--tx", &tx, "--rx", &rx, "--json"];
    let printed = nicctl::text(&[&["bench"][..], &EXPERIMENTS, &LEAST, &over].concat());

    for (was, is) in before.iter().zip(cards.map(State::read)) {
        was.assert_same(&is);
    }
    let document: Json = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(document["version"], 1);
    let experiments = list(&document["experiments"]);
    let names: Vec<_> = experiments.iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, EXPERIMENTS);
    for experiment in experiments {
        let place = experiment["place"].as_str().unwrap_or_default();
        assert!(place.starts_with(&format!("{tx} to {rx}; ")), "{place}");
        let cases = list(&experiment["cases"]).iter();
        for (case, variant) in cases.flat_map(|case| {
            list(&case["variants"]).iter().map(|variant| (case["title"].clone(), variant))
        }) {
            println!("{case}, {}: {}", variant["title"], result(variant));
        }
    }
    Outcome::Passed
}

/// So that there is something to give back.
fn use_a_little([tx, rx]: [u32; 2]) {
    let mut links = Links::open().unwrap();
    links.set_up(tx, true).unwrap();
    links.set_up(rx, false).unwrap();
    links.add_address(tx, IpAddr::from([198, 51, 100, 1]), 24).unwrap();
}

fn list(json: &Json) -> &[Json] {
    json.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// How much it was, or why nothing.
fn result(variant: &Json) -> String {
    if let Some(why) = variant["unavailable"].as_str() {
        assert!(!why.is_empty() && variant["measured"].is_null(), "{variant}");
        return why.to_owned();
    }
    let rate = variant["measured"]["rate"]["max"].as_f64();
    assert!(rate.is_some_and(|rate| rate > 0.0), "{variant}");
    format!("up to {:.0} a second", rate.unwrap_or_default())
}

fn is_given(address: &IpAddr) -> bool {
    !matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// What is to be as it was.
#[derive(Debug, PartialEq)]
struct State {
    nic: Nic,
    /// Without those that the kernel gives by itself, some time after the card is up.
    addresses: Vec<IpAddr>,
    settings: BTreeMap<Place, Value>,
}

impl State {
    /// In lines: all of it is long.
    fn assert_same(&self, is: &Self) {
        let [was, is] = [self, is].map(|state| format!("{state:#?}"));
        let differences = was.lines().zip(is.lines()).filter(|(was, is)| was != is);
        let differences: Vec<_> = differences.take(10).collect();
        assert!(was == is, "{differences:#?}");
    }

    fn read(ifindex: u32) -> Self {
        let nic = Nic::by_index(ifindex).unwrap();
        let addresses = Routes::open().unwrap().addresses_of(ifindex).unwrap();
        let settings = settings::read(&nic).unwrap();
        let settings = control::lasting(&settings).into_iter();
        Self {
            addresses: addresses.iter().filter_map(|it| it.ip()).filter(is_given).collect(),
            settings: settings.map(|(place, value)| (place, value.clone())).collect(),
            nic: card::lasting(nic),
        }
    }
}
