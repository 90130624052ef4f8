//! The program itself: what it prints, what it refuses, and how it ends.

use std::net::TcpListener;
use std::process::Output;

use serde_json::Value;

use crate::dev::{Dev, program};

fn run(dev: Option<&Dev>, arguments: &[&str]) -> (i32, String, String) {
    let mut command = program();
    if let Some(dev) = dev {
        command.args(["--api", dev.api(1), "--admin", dev.admin(2)]);
    }
    let Output { status, stdout, stderr } = command.args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn check_prints_the_decision_and_exits_with_three_when_it_is_denied() {
    let dev = Dev::start();
    let (code, out, _) = run(Some(&dev), &["check", "client=cli", "--cost", "20"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.starts_with("allowed  per-client: ok, 0 of 20 left, "), "{out}");
    let (code, out, _) = run(Some(&dev), &["check", "client=cli", "--cost", "20", "--output", "json"]);
    assert_eq!(code, 3, "{out}");
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&json["version"], &json["decision"]["limit"]), (&1.into(), &"per-client".into()));
}

#[test]
fn policies_are_validated_and_applied_from_files() {
    let dev = Dev::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "ringfence: 1\ndomain: default\nlimits: { per-client: { rate: 3/h, key: [client] } }\n")
        .unwrap();
    let (code, out, _) = run(None, &["policy", "validate", path]);
    assert_eq!((code, out.as_str()), (0, format!("{path} is valid: domain default\n").as_str()));
    let (code, out, err) =
        run(Some(&dev), &["policy", "apply", path, "--if-revision", "1", "--reason", "a test & more"]);
    assert_eq!((code, out.as_str()), (0, "default: revision 2\n  keeps per-client\n"), "{err}");
    let (_, out, _) = run(Some(&dev), &["policy", "history"]);
    assert!(out.contains("a test & more"), "{out}");
    std::fs::write(&file, "ringfence: 1\ndomain: default\nlimits: { per-client: { rate: fast, key: [client] } }\n")
        .unwrap();
    let (code, out, err) = run(None, &["policy", "validate", path]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("policy.yaml:3:"), "{err}");
    let (code, _, _) = run(Some(&dev), &["policy", "apply", path]);
    assert_eq!(code, 1, "a broken document is not even sent");
}

#[test]
fn the_cluster_can_be_waited_for_and_its_map_read() {
    let dev = Dev::start();
    let (code, out, err) = run(Some(&dev), &["cluster", "status", "--wait", "20s"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("partitions 4096 owned, 0 vacant"), "{out}");
    let (code, out, _) = run(Some(&dev), &["cluster", "map", "--output", "json"]);
    assert_eq!(code, 0);
    let map: Value = serde_json::from_str(&out).unwrap();
    let runs = map["map"]["runs"].as_array().unwrap();
    let covered: u64 = runs.iter().map(|run| run["last"].as_u64().unwrap() - run["first"].as_u64().unwrap() + 1).sum();
    assert_eq!(covered, 4096);
    let (code, out, _) = run(Some(&dev), &["healthcheck"]);
    assert_eq!((code, out.as_str()), (0, "ready\n"));
}

#[test]
fn nobody_home_is_an_exit_code_of_its_own() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for arguments in [vec!["check", "client=a"], vec!["cluster", "status"], vec!["healthcheck"]] {
        let mut all = vec!["--api", &closed, "--admin", &closed];
        all.extend(arguments);
        let (code, out, err) = run(None, &all);
        assert_eq!((code, out.as_str()), (4, ""), "{all:?}: {err}");
        assert!(err.contains(&closed), "{err}");
    }
}

#[test]
fn a_port_that_is_taken_stops_everything_before_it_starts() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    // The taken port is that of the first node's API.
    let (code, out, err) = run(None, &["dev", "--port", &port.to_string()]);
    assert_eq!((code, out.as_str()), (78, ""), "{err}");
    assert!(err.contains("port-in-use") && err.contains(&format!("127.0.0.1:{port}")), "{err}");
}

#[test]
fn words_that_are_none_are_usage_errors() {
    for arguments in [vec!["--frobnicate"], vec!["check", "alice"], vec!["dev", "--nodes", "0"], vec!["fly"], vec![]] {
        let (code, _, err) = run(None, &arguments);
        assert_eq!(code, 2, "{arguments:?}: {err}");
    }
}

#[test]
fn a_policy_that_is_wrong_starts_no_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, "ringfence: 1\ndomain: default\nlimits: {}\n").unwrap();
    let (code, out, err) = run(None, &["dev", "--port", "0", "--policy", file.to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (78, ""));
    assert!(err.contains("policy.yaml:3:"), "{err}");
}
