//! What a node is told: by flags above the environment above its file above the defaults, shown with where it was said,
//! and every mistake with its place before anything starts.

use std::net::TcpListener;
use std::process::{Command, Output};

use serde_json::Value;

use crate::dev::program;
use crate::serve::{Fleet, of};

/// What a command that must end by itself said.
fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// The line of `config show` about a key, as its value and its origin.
fn shown<'t>(text: &'t str, name: &str) -> (&'t str, &'t str) {
    let line = text.lines().find(|line| line.starts_with(&format!("{name} = "))).unwrap_or_else(|| panic!("{text}"));
    let (value, origin) = line.rsplit_once(" # ").unwrap();
    (value.split_once(" = ").unwrap().1.trim_end(), origin)
}

#[test]
fn every_mistake_in_a_file_is_told_at_its_place_with_what_was_meant() {
    let mut fleet = Fleet::new(1);
    fleet.tell(1, "api.lisen", "\"127.0.0.1:1\"");
    fleet.tell(1, "lease.ttl", "3");
    fleet.tell(1, "nodes.name", "\"n1\"");
    let file = fleet.write_file(1);
    let text = std::fs::read_to_string(&file).unwrap();
    let line = |key: &str| 1 + text.lines().position(|line| line.starts_with(key)).unwrap();
    fleet.start(1);
    assert_eq!(fleet.ended(1), 78);
    let log = fleet.log(1);
    for (key, words) in [
        ("api.lisen", &["unknown key `lisen`", "did you mean: `listen`"][..]),
        ("lease.ttl", &["`lease.ttl`", "a time with its unit"]),
        ("nodes.name", &["unknown section `nodes`", "did you mean: `node`"]),
    ] {
        assert!(log.contains(&format!("{}:{}:", file.display(), line(key))), "the place of {key}: {log}");
        assert!(words.iter().all(|word| log.contains(word)), "{words:?}: {log}");
    }
    assert_eq!(log.matches("[bad-config]").count(), 3, "each once, all at once: {log}");
    assert!(!fleet.path("n1").exists(), "nothing was started, nothing made");
}

#[test]
fn flags_go_above_the_environment_above_the_file_above_the_defaults() {
    let mut fleet = Fleet::new(1);
    fleet.tell(1, "limits.deadline_default", "\"100ms\"");
    fleet.tell(1, "limits.deadline_max", "\"1s\"");
    fleet.tell(1, "limits.max_keys", "1_000");
    let file = fleet.write_file(1);
    let mut command = program();
    command.env("RINGFENCE_LIMITS__DEADLINE_DEFAULT", "200ms").env("RINGFENCE_LIMITS__DEADLINE_MAX", "2s");
    command.args(["config", "show", "--origin", "--limits-deadline-max", "3s", "--config"]).arg(&file);
    let (code, out, err) = run(&mut command);
    assert_eq!(code, 0, "{err}");
    assert_eq!(shown(&out, "deadline_max"), ("\"3s\"", "flag --limits-deadline-max"));
    assert_eq!(shown(&out, "deadline_default"), ("\"200ms\"", "env RINGFENCE_LIMITS__DEADLINE_DEFAULT"));
    let (value, origin) = shown(&out, "max_keys");
    assert_eq!(value, "1000");
    assert!(origin.starts_with(&format!("file {}:", file.display())), "{origin}");
    assert_eq!(shown(&out, "renew"), ("\"500ms\"", "default"));
    assert_eq!(shown(&out, "format"), ("\"text\"", "default"));
}

#[test]
fn what_the_environment_and_flags_say_is_what_the_node_does() {
    let mut fleet = Fleet::new(1);
    fleet.tell(1, "node.name", "\"of-the-file\"");
    fleet.tell(1, "cluster.founders", r#"["of-the-flag"]"#);
    let file = fleet.write_file(1);
    let mut command = program();
    command.env_remove("RINGFENCE_LOG").env("RINGFENCE_NODE__NAME", "of-the-environment");
    command.env("RINGFENCE_LOG__FORMAT", "json").env("RINGFENCE_CONFIG", &file);
    command.args(["serve", "--node-name", "of-the-flag"]);
    fleet.start_by(1, command);
    let cluster = fleet.wait_until_settled(1, 1);
    assert_eq!(of(&cluster, "of-the-flag", "state"), "live");
    // A log of JSON has nothing else in it, and says what it is that starts.
    let log = fleet.log(1);
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let start =
        lines.iter().find(|line| line.to_string().contains("ringfence starts")).unwrap_or_else(|| panic!("{log}"));
    let text = start.to_string();
    assert!(text.contains(&fleet.api(1)) && text.contains("of-the-flag"), "{text}");
}

#[test]
fn a_variable_that_is_no_setting_is_a_mistake_and_a_secret_is_never_shown() {
    let fleet = Fleet::new(1);
    let file = fleet.write_file(1);
    let (code, out, err) = run(program().env("RINGFENCE_LIMITS__MAX_KEY", "5").args(["config", "validate"]).arg(&file));
    assert_eq!((code, out.as_str()), (78, ""), "{err}");
    assert!(err.contains("RINGFENCE_LIMITS__MAX_KEY") && err.contains("MAX_KEYS"), "{err}");

    let secret = "a secret of the environment";
    let mut show = program();
    show.env("RINGFENCE_CLUSTER__SECRET_ACCEPT", secret).args(["config", "show", "--origin", "--config"]).arg(&file);
    let (code, out, err) = run(&mut show);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("RINGFENCE_CLUSTER__SECRET_ACCEPT") && !out.contains(secret), "{out}");

    let (code, out, err) = run(program().args(["config", "validate"]).arg(&file));
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("is valid: node n1 of cluster fleet"), "{out}");
}

#[test]
fn a_port_that_is_taken_is_named_before_anything_is_made() {
    for port in ["api", "peer", "admin"] {
        let mut fleet = Fleet::new(1);
        let (address, key) = match port {
            "api" => (fleet.api(1), "api.listen"),
            "peer" => (fleet.peer(1), "peer.listen"),
            _ => (fleet.admin(1), "admin.listen"),
        };
        let _taken = TcpListener::bind(&address).unwrap();
        fleet.start(1);
        assert_eq!(fleet.ended(1), 78, "{}", fleet.log(1));
        fleet.wait_for_log(1, &["port-in-use", &address, key]);
    }
}

#[test]
fn a_policy_that_is_wrong_is_told_before_the_node_starts() {
    let mut fleet = Fleet::new(1);
    std::fs::write(
        fleet.path("policy.yaml"),
        "ringfence: 1\ndomain: default\nlimits: { a: { rate: fast, key: [] } }\n",
    )
    .unwrap();
    fleet.start(1);
    assert_eq!(fleet.ended(1), 78);
    let log = fleet.log(1);
    assert!(log.contains("policy.yaml:3:"), "{log}");
}

#[test]
fn a_node_opens_as_many_files_as_the_system_lets_it_whatever_it_was_given_at_first() {
    let mut fleet = Fleet::new(1);
    let file = fleet.write_file(1);
    let mut command = Command::new("sh");
    let program = program();
    command.args(["-c", r#"ulimit -Sn 256 && exec "$0" serve --config "$1""#]).arg(program.get_program()).arg(file);
    fleet.start_by(1, command);
    fleet.wait_for_log(1, &["ringfence starts"]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", fleet.pid(1))).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers[0], numbers[1], "{line}");
    assert_ne!(numbers[0], "256", "{line}");
}
