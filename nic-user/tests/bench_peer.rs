//! `nicctl bench serve` and `nicctl bench --peer`, over a cable between two hosts; and what
//! becomes of those who do not speak as they should.

mod common;
mod schema;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use nic_user::lab::{Host, Lab, Shape};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn spawn(host: &Host, args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nicctl"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    host.run(|| command.spawn()).unwrap().unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

struct Served {
    lab: Lab,
    server: Child,
    address: SocketAddr,
    /// Empty with --from.
    token: String,
}

impl Served {
    fn new() -> Self {
        Self::with(|_| Vec::new())
    }

    fn with(args: impl Fn(&Lab) -> Vec<String>) -> Self {
        let lab = Lab::new(Shape::default()).unwrap();
        let listen = format!("{}:0", lab.b().ipv4());
        let args = args(&lab);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut server =
            spawn(lab.b(), &[&["bench", "serve", "--listen", &listen], &*args].concat());
        let mut out = BufReader::new(server.stdout.as_mut().unwrap());
        let mut line = || {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let address = line().strip_prefix("listening on ").unwrap().parse().unwrap();
        let token = match args.is_empty() {
            true => line().strip_prefix("token ").unwrap().to_owned(),
            false => String::new(),
        };
        Self { lab, server, address, token }
    }

    fn hello(&self) -> Value {
        json!({"hello": {"version": 2, "token": self.token}})
    }

    /// Its end, and what it said to whom runs it.
    fn interrupted(mut self) -> (Option<i32>, String) {
        signal(&self.server, Signal::SIGINT);
        let mut said = String::new();
        self.server.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.server.wait().unwrap().code(), said)
    }

    fn bench(&self, args: &[&str]) -> Child {
        let address = self.address.to_string();
        spawn(
            self.lab.a(),
            &[&["bench", "--peer", &address, "--token", &self.token, "--json"], args].concat(),
        )
    }

    fn connect(&self) -> TcpStream {
        let stream = self.lab.a().run(|| TcpStream::connect(self.address)).unwrap().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A stream over which a hello was exchanged. Who was there before may still be going.
    fn greet(&self) -> BufReader<TcpStream> {
        for _ in 0..1000 {
            let mut stream = BufReader::new(self.connect());
            if say(&mut stream, &self.hello())["hello"].is_object() {
                return stream;
            }
        }
        panic!("nobody is greeted");
    }

    /// Until there is a connection to the server.
    fn wait_for_a_client(&self) {
        let deadline = Instant::now() + PATIENCE;
        let local = format!(":{:04X} ", self.address.port());
        let is_ours = |line: &str| line.contains(&local) && line.contains(" 01 ");
        let read = || std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
        while !self.lab.b().run(read).unwrap().lines().any(is_ours) {
            assert!(Instant::now() < deadline, "nobody connects");
        }
    }

    /// What is said to these bytes before the connection ends.
    fn answer_to(&self, bytes: &[u8]) -> String {
        loop {
            let mut stream = self.connect();
            // It may have refused already, and not read all of it.
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            if !answer.contains("another client") {
                return answer;
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn say(stream: &mut BufReader<TcpStream>, question: &Value) -> Value {
    stream.get_mut().write_all(format!("{question}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap_or_default()
}

#[track_caller]
fn document(output: &Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_variant_is_measured_and_both_sides_cpu_is_told() {
    needs_root!();
    let served = Served::new();
    let bench = served.bench(&["--rounds", "5", "--time", "0.05"]);
    let document = document(&bench.wait_with_output().unwrap());
    let schema = Command::new(env!("CARGO_BIN_EXE_nicctl")).args(["schema", "bench"]).output();
    let schema: Value = serde_json::from_slice(&schema.unwrap().stdout).unwrap();
    assert_eq!(schema::mismatch(&schema, &document), None);
    let experiments = document["experiments"].as_array().unwrap();
    let names: Vec<_> = experiments.iter().map(|experiment| &experiment["name"]).collect();
    assert_eq!(names, ["udp-gso", "big-tcp"]);
    let cases = experiments.iter().flat_map(|experiment| experiment["cases"].as_array().unwrap());
    for variant in cases.flat_map(|case| case["variants"].as_array().unwrap()) {
        let measured = &variant["measured"];
        assert!(measured["rate"]["max"].as_f64().unwrap() > 0.0, "{variant}");
        assert!(measured["cpu"]["receiver"]["max"].as_f64().unwrap() > 0.0, "{variant}");
        for side in ["local CPU", "remote CPU"] {
            let figures = measured["figures"].as_array().unwrap();
            assert!(figures.iter().any(|figure| figure["name"] == side), "{variant}");
        }
    }
}

#[test]
fn whoever_does_not_speak_its_language_is_told_and_sent_away() {
    needs_root!();
    let served = Served::new();
    let long = [b'x'; 100_000];
    let hello = served.hello().to_string();
    let after = |line: &str| format!("{hello}\n{line}\n").into_bytes();
    let udp = |size: u32| json!({"udp": {"from_port": 9, "size": size, "merged": false}});
    for (bytes, reason) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "not understood"),
        (b"\x16\x03\x01\0\xff\n".to_vec(), "not understood"),
        (b"\"read\"\n".to_vec(), "must be a hello"),
        (b"{\"hello\":{\"version\":99}}\n".to_vec(), "version 99 is not supported"),
        (after(&hello), "already sent"),
        (after("\"read\""), "nothing was started"),
        (after("{\"run\":\"id\"}"), "not understood"),
        (after(&udp(0).to_string()), "no bytes"),
        (after(&udp(70_000).to_string()), "not understood"),
        (after("{\"tcp\":{\"answer\":{\"size\":4000000000}}}"), "transactions of 4000000000"),
        (b"{\"hello\":".to_vec(), "without an end"),
        (Vec::new(), "without a word"),
    ] {
        let answer = served.answer_to(&bytes);
        assert!(answer.contains(reason), "{reason}: {answer}");
    }
    // What it has not read may make the kernel take back what it said.
    let answer = served.answer_to(&long);
    assert!(answer.is_empty() || answer.contains("more than 4096 bytes"), "{answer}");
    // It still serves.
    served.greet();
}

#[test]
fn one_at_a_time_and_who_goes_makes_room() {
    needs_root!();
    let served = Served::new();
    let mut first = served.greet();
    let udp = json!({"udp": {"from_port": 9, "size": 100, "merged": true}});
    assert!(say(&mut first, &udp)["ready"]["port"].is_u64());
    let other = served.bench(&["udp-gso"]).wait_with_output().unwrap();
    assert_eq!(other.status.code(), Some(1));
    let error = String::from_utf8(other.stderr).unwrap();
    assert!(error.contains("another client is being served"), "{error}");
    assert!(say(&mut first, &json!("read"))["done"]["bytes"].is_u64());
    // It goes in the middle of it.
    drop(first);
    drop(served.greet());

    let mut bench = served.bench(&["big-tcp", "--time", "60"]);
    served.wait_for_a_client();
    bench.kill().unwrap();
    bench.wait().unwrap();
    drop(served.greet());
}

#[test]
fn either_side_can_be_interrupted() {
    needs_root!();
    let mut served = Served::new();
    let mut client = served.greet();
    assert!(say(&mut client, &json!({"tcp": {"receive": {}}}))["ready"]["port"].is_u64());
    signal(&served.server, Signal::SIGINT);
    assert_eq!(served.server.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    let _ = client.read_to_string(&mut rest);
    assert_eq!(rest, "");
    // Nobody is there any more.
    let output = served.bench(&["udp-gso"]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("`nicctl bench serve` must run there"), "{error}");
}

#[test]
fn a_stranger_learns_nothing() {
    needs_root!();
    let served = Served::new();
    let almost = format!("{}x", &served.token[1..]);
    for token in [json!(null), json!(""), json!(&served.token[1..]), json!(almost), json!("é")] {
        let hello = json!({"hello": {"version": 2, "token": token}});
        let answer = served.answer_to(format!("{hello}\n\"read\"\n").as_bytes());
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let said = answer["error"].as_str().unwrap();
        assert!(said.starts_with("pass the token"), "{answer}");
    }
    let address = served.address.to_string();
    let bench = spawn(served.lab.a(), &["bench", "--peer", &address, "udp-gso"]);
    let output = bench.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("the other side says: pass the token"), "{error}");
    // It has not kept others out meanwhile.
    served.greet();
    assert_eq!(served.interrupted().0, Some(0));
}

#[test]
fn those_who_say_nothing_keep_nobody_out_and_are_sent_away() {
    needs_root!();
    let served = Served::new();
    let mut silent: Vec<_> = (0..4).map(|_| served.connect()).collect();
    // One says its name a byte at a time, and no end of it.
    silent[0].write_all(b"{\"hello\"").unwrap();
    drop(served.greet());
    for stream in &mut silent {
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert!(said.contains("timed out"), "{said}");
    }
    let (code, said) = served.interrupted();
    assert_eq!((code, said.matches("was refused").count()), (Some(0), 4), "{said}");
}

#[test]
fn only_the_address_that_is_named_is_answered() {
    needs_root!();
    let served = Served::with(|lab| vec!["--from".to_owned(), lab.a().ipv4().to_string()]);
    let hello = b"{\"hello\":{\"version\":2}}\n";
    assert!(served.answer_to(hello).contains("\"kernel\""));
    let other = Served::with(|lab| vec!["--from".to_owned(), lab.b().ipv4().to_string()]);
    assert_eq!(other.answer_to(hello), "");
    assert_eq!(other.interrupted(), (Some(0), String::new()));
}

#[test]
fn what_needs_both_sides_in_hand_is_not_measured_to_another_machine() {
    needs_root!();
    let served = Served::new();
    let output = served.bench(&["copybreak"]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("available: udp-gso, big-tcp"), "{error}");
}
