//! Redis behind TLS: who is trusted, and what is told when nobody is.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use store::{BadConfig, Standing, Store, StoreConfig};
use tempfile::TempDir;

use crate::support::*;

/// Certificates of an authority of its own, for 127.0.0.1.
struct Certificates(TempDir);

impl Certificates {
    fn make() -> Certificates {
        let certificates = Certificates(tempfile::tempdir().unwrap());
        let folder = certificates.0.path();
        let key = ["-newkey", "rsa:2048", "-nodes"];
        let authority = ["req", "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.crt"];
        openssl(folder, &[&authority[..], &key].concat());
        let request = ["req", "-subj", "/CN=redis", "-keyout", "redis.key", "-out", "redis.csr"];
        openssl(folder, &[&request[..], &key].concat());
        std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
        let signed = ["x509", "-req", "-days", "2", "-in", "redis.csr", "-out", "redis.crt", "-extfile", "names"];
        openssl(folder, &[&signed[..], &["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"]].concat());
        certificates
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn openssl(folder: &Path, words: &[&str]) {
    let mut command = program("openssl", "openssl");
    command.current_dir(folder).args(words).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().unwrap().success(), "openssl {words:?}");
}

/// A server with a port for TLS besides, and that port.
async fn behind(certificates: &Certificates) -> (Redis, u16) {
    let text = |name| certificates.path(name).to_str().unwrap().to_owned();
    let (key, certificate, authority) = (text("redis.key"), text("redis.crt"), text("ca.crt"));
    let port = free_port();
    let settings = [
        ["--tls-port", &port.to_string()],
        ["--tls-key-file", &key],
        ["--tls-cert-file", &certificate],
        ["--tls-ca-cert-file", &authority],
        ["--tls-auth-clients", "no"],
    ];
    (Redis::start_with(settings.as_flattened()).await, port)
}

#[tokio::test]
async fn a_server_whose_certificate_the_file_vouches_for_is_used() {
    let certificates = Certificates::make();
    let (_redis, port) = behind(&certificates).await;
    let config =
        StoreConfig { ca_file: Some(certificates.path("ca.crt")), ..config(&format!("rediss://127.0.0.1:{port}")) };
    let store = Store::open(&config, UUID).unwrap();
    up(&store).await;
    assert!(store.claim(P, keeper(1, 1), 0).await.is_ok());
}

#[tokio::test]
async fn a_server_whose_certificate_nobody_vouches_for_is_refused() {
    let (mine, other) = (Certificates::make(), Certificates::make());
    let (_redis, port) = behind(&mine).await;
    let config = StoreConfig { ca_file: Some(other.path("ca.crt")), ..config(&format!("rediss://127.0.0.1:{port}")) };
    let why = refused(&Store::open(&config, UUID).unwrap()).await;
    assert!(why.contains("no TLS with rediss://127.0.0.1"), "{why}");
    assert!(why.contains("certificate"), "{why}");
}

#[tokio::test]
async fn a_server_under_another_name_than_its_certificates_is_refused() {
    let certificates = Certificates::make();
    let (_redis, port) = behind(&certificates).await;
    let config =
        StoreConfig { ca_file: Some(certificates.path("ca.crt")), ..config(&format!("rediss://localhost:{port}")) };
    let why = refused(&Store::open(&config, UUID).unwrap()).await;
    assert!(why.contains("certificate"), "{why}");
}

#[tokio::test]
async fn a_server_without_tls_is_not_talked_to_in_clear() {
    let certificates = Certificates::make();
    let redis = Redis::start().await;
    let url = format!("rediss://:secret@127.0.0.1:{}", redis.port);
    let config = StoreConfig { ca_file: Some(certificates.path("ca.crt")), ..config(&url) };
    let store = Store::open(&config, UUID).unwrap();
    // What it makes of the first bytes is up to chance: it may say something, or wait for more.
    let why = until(&store, |standing| match standing {
        Standing::Down { why, .. } | Standing::Refused { why } => Some(why.clone()),
        Standing::Connecting | Standing::Up { .. } => None,
    })
    .await;
    assert!(why.contains("rediss://:***@127.0.0.1"), "{why}");
}

#[tokio::test]
async fn certificates_that_are_of_no_use_are_refused_at_once() {
    let certificates = Certificates::make();
    let with = |file: &str, url| {
        let config = StoreConfig { ca_file: Some(certificates.path(file)), ..config(url) };
        let opened = Store::open(&config, UUID).map(drop);
        assert_eq!(config.check(), opened, "{file}");
        opened
    };
    for file in ["absent", "names", "ca.key"] {
        assert!(matches!(with(file, "rediss://127.0.0.1"), Err(BadConfig::Certificates { .. })), "{file}");
    }
    assert_eq!(with("ca.crt", "redis://127.0.0.1"), Err(BadConfig::NoTls));
    assert_eq!(with("ca.crt", "rediss://127.0.0.1"), Ok(()));
}
