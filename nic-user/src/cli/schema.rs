//! `nicctl schema`: the JSON schemas of what nicctl prints.

use std::io::Write;

use clap::builder::PossibleValuesParser;
use schemars::{JsonSchema, Schema, schema_for};

use super::{attach, confirm, detach, doctor, exit, list, log, show};
use crate::{
    bench,
    control::{
        Profile,
        model::{ApplyDocument, PlanDocument, RestoreDocument},
    },
    counters,
    decode::Decoded,
    forward,
    report::{
        json::{self, ForEach},
        style::Style,
        table::{Align, Table},
    },
};

/// Every JSON document that nicctl prints, and the profile that it reads.
const DOCUMENTS: &[Document] = &[
    Document::of::<ForEach<ApplyDocument>>("apply", "nicctl apply --json and nicctl set --json"),
    Document::of::<attach::Document>("attach", "nicctl attach --json"),
    Document::of::<bench::model::Document>("bench", "nicctl bench --json"),
    Document::of::<bench::compare::Comparison>("bench-compare", "nicctl bench compare --json"),
    Document::of::<confirm::Document>("confirm", "nicctl confirm --json"),
    Document::of::<Decoded>("decode", "one line of nicctl decode --json"),
    Document::of::<detach::Document>("detach", "nicctl detach --json"),
    Document::of::<doctor::Document>("doctor", "nicctl doctor --json"),
    Document::of::<exit::Document>(
        "error",
        "any command with --json that fails without a document of its own",
    ),
    Document::of::<forward::model::Document>("forward", "one line of nicctl forward --json"),
    Document::of::<list::Document>("list", "nicctl list --json"),
    Document::of::<log::Document>("log", "one line of nicctl log --json"),
    Document::of::<ForEach<PlanDocument>>(
        "plan",
        "nicctl plan --json, and apply and set with --dry-run",
    ),
    Document::of::<Profile>("profile", "a profile, written in TOML"),
    Document::of::<ForEach<RestoreDocument>>("restore", "nicctl restore --json"),
    Document::of::<ForEach<show::document::Document>>("show", "nicctl show --json"),
    Document::of::<counters::model::Document>("stats", "nicctl stats --json"),
];

struct Document {
    name: &'static str,
    about: &'static str,
    schema: fn() -> Schema,
}

impl Document {
    const fn of<T: JsonSchema>(name: &'static str, about: &'static str) -> Self {
        Self { name, about, schema: || schema_for!(T) }
    }
}

/// Print the JSON schema of a command's output, or list the schemas
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  nicctl schema
  nicctl schema decode > decode.schema.json")]
pub(super) struct Args {
    /// Which document
    #[arg(value_name = "NAME",
        value_parser = PossibleValuesParser::new(DOCUMENTS.iter().map(|document| document.name)))]
    name: Option<String>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<()> {
    let named = |document: &&Document| Some(document.name) == args.name.as_deref();
    match DOCUMENTS.iter().find(named) {
        Some(document) => json::write_pretty(out, &(document.schema)())?,
        None => list(out)?,
    }
    Ok(())
}

fn list(out: &mut dyn Write) -> std::io::Result<()> {
    let mut table = Table::new([("NAME", Align::Left), ("DOCUMENT", Align::Left)]);
    for document in DOCUMENTS {
        table.push([document.name.into(), document.about.into()]);
    }
    table.write(out, Style::for_stdout())
}
