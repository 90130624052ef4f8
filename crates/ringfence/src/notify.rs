//! Telling the service manager how it goes: one datagram to the socket that `NOTIFY_SOCKET` names (sd_notify(3)). Without
//! that variable nobody is told, and nothing here can keep a node from running.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable with the socket's path, or its abstract name behind an `@`.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Tells these lines (`READY=1`, `STATUS=...`). What goes wrong is a log line.
pub fn tell(lines: &str) {
    let Some(socket) = std::env::var_os(VARIABLE).filter(|socket| !socket.is_empty()) else { return };
    if let Err(error) = send(socket.as_bytes(), lines) {
        tracing::warn!(%error, "the service manager could not be told `{lines}`");
    }
}

fn send(socket: &[u8], lines: &str) -> std::io::Result<()> {
    let address = match socket.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(socket))?,
    };
    UnixDatagram::unbound()?.send_to_addr(lines.as_bytes(), &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_manager_is_told_by_path_and_by_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str().as_bytes(), "READY=1").unwrap();
        assert_eq!(received(&manager), "READY=1");

        let name = format!("ringfence-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send(format!("@{name}").as_bytes(), "STOPPING=1").unwrap();
        assert_eq!(received(&manager), "STOPPING=1");
    }

    #[test]
    fn a_manager_that_is_gone_is_an_error_and_no_more() {
        assert!(send(b"/nowhere/at/all", "READY=1").is_err());
    }
}
