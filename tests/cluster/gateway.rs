//! What stands around a node that answers by forward-auth: visitors with addresses of their own, an application that says
//! what reached it, nginx as Debian has it, and a relay that counts connections.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::dev::signal;
use crate::patience::until;
use crate::serve::Fleet;

/// The file that docs/forward-auth.md tells people to use.
pub const NGINX_FILE: &str = include_str!("../../examples/gateways/nginx.conf");

/// Addresses in a fleet's own network, by their last byte, beside those of its nodes.
const APPLICATION: u8 = 50;
const GATEWAY: u8 = 60;
const RELAY: u8 = 70;
const FIRST_VISITOR: u8 = 100;

/// How long a single answer may take on a machine that does much else.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// An address of the fleet's network; the last byte tells who has it.
fn address(fleet: &Fleet, last: u8) -> Ipv4Addr {
    let node: SocketAddrV4 = fleet.api(1).parse().unwrap();
    let [a, b, c, _] = node.ip().octets();
    Ipv4Addr::new(a, b, c, last)
}

/// The address from which the gateway asks, and which nodes are told to trust.
pub fn gateway(fleet: &Fleet) -> Ipv4Addr {
    address(fleet, GATEWAY)
}

/// Somebody with an address, who asks as plainly as curl.
#[derive(Clone, Copy, Debug)]
pub struct Visitor(pub Ipv4Addr);

/// What a visitor got.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    head: String,
    pub text: String,
}

impl Visitor {
    /// Visitor `number`, counted from 0.
    pub fn number(fleet: &Fleet, number: u8) -> Visitor {
        Visitor(address(fleet, FIRST_VISITOR + number))
    }

    /// Asks for a page with these header fields.
    pub fn get(self, at: SocketAddr, path: &str, fields: &[(&str, &str)]) -> Page {
        self.ask("GET", at, path, fields, "")
    }

    /// Sends a request with this body on a connection of its own, and reads all that comes back.
    pub fn ask(self, method: &str, at: SocketAddr, path: &str, fields: &[(&str, &str)], body: &str) -> Page {
        let mut stream = self.connect(at);
        let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\ncontent-length: {length}\r\n");
        stream.write_all(format!("{head}{lines}\r\n{body}").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap_or_else(|error| panic!("{method} {path} at {at}: {error}"));
        Page::of(&String::from_utf8_lossy(&answer))
    }

    /// The standard library cannot choose the address that a connection comes from.
    fn connect(self, at: SocketAddr) -> TcpStream {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let stream = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind((self.0, 0).into()).unwrap();
            socket.connect(at).await.unwrap_or_else(|error| panic!("{at} cannot be reached: {error}"))
        });
        let stream = stream.into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(ANSWER_WITHIN)).unwrap();
        stream
    }
}

impl Page {
    fn of(answer: &str) -> Page {
        let (head, text) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Page {
            status: status.unwrap_or_else(|| panic!("no status: {head}")),
            head: head.to_owned(),
            text: text.to_owned(),
        }
    }

    /// The value of a header field; empty when it is absent.
    pub fn field(&self, name: &str) -> &str {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }

    /// The body as JSON.
    pub fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The problem's word and the field at fault.
    pub fn mistake(&self) -> (u16, String, String) {
        let (body, text) = (self.body(), |value: &Value| value.as_str().unwrap_or("").to_owned());
        (self.status, text(&body["code"]), text(&body["field"]))
    }
}

/// What nginx protects: it answers every request with the request's first line and body, and keeps them.
pub struct Application {
    address: SocketAddr,
    reached: Arc<Mutex<Vec<String>>>,
}

impl Application {
    pub fn start(fleet: &Fleet) -> Application {
        let listener = TcpListener::bind((address(fleet, APPLICATION), 0)).unwrap();
        let (address, reached) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let noted = Arc::clone(&reached);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let request = read_request(&mut stream);
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{request}", request.len());
                noted.lock().unwrap().push(request);
                // A visitor that hung up is no failure of the application's.
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Application { address, reached }
    }

    /// The first lines and bodies of all requests so far.
    pub fn reached(&self) -> Vec<String> {
        self.reached.lock().unwrap().clone()
    }
}

/// The first line of a request, and its body behind it.
fn read_request(stream: &mut TcpStream) -> String {
    let (mut read, mut piece) = (Vec::new(), [0; 4_096]);
    loop {
        let length = stream.read(&mut piece).unwrap_or(0);
        read.extend_from_slice(&piece[..length]);
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let line =
                |name: &str| head.lines().find_map(|line| line.to_lowercase().strip_prefix(name).map(str::to_owned));
            let expected = line("content-length: ").map_or(0, |length| length.parse().unwrap());
            if body.len() >= expected || length == 0 {
                return format!("{}\n{body}", head.lines().next().unwrap_or(""));
            }
        }
        if length == 0 {
            return text;
        }
    }
}

/// A running nginx with the documented file, in which only the addresses are others.
pub struct Nginx {
    child: Child,
    pub address: SocketAddr,
}

impl Nginx {
    /// In front of this application, asking the fleet's first node at `node`; `change` may change the file's text.
    pub fn start(fleet: &Fleet, application: &Application, node: &str, change: impl Fn(String) -> String) -> Nginx {
        let address = SocketAddr::from((gateway(fleet), 8080));
        let file = NGINX_FILE
            .replace("127.0.0.1:7600", node)
            .replace("127.0.0.1:9000", &application.address.to_string())
            .replace("127.0.0.1:8080", &address.to_string());
        std::fs::write(fleet.path("ringfence.conf"), change(file)).unwrap();
        let path = |name: &str| fleet.path(name).display().to_string();
        let around = format!(
            "daemon off;\nworker_processes 1;\npid {pid};\nerror_log {log} info;\nevents {{ worker_connections 256; }}\n\
             http {{\n  access_log off;\n  client_body_temp_path {body};\n  proxy_temp_path {proxy};\n  \
             proxy_bind {from};\n  include {file};\n}}\n",
            pid = path("nginx.pid"),
            log = path("nginx.log"),
            body = path("nginx-body"),
            proxy = path("nginx-proxy"),
            from = gateway(fleet),
            file = path("ringfence.conf"),
        );
        std::fs::write(fleet.path("nginx.conf"), around).unwrap();
        let mut command = Command::new("nginx");
        command.args(["-e", &path("nginx.log"), "-c", &path("nginx.conf")]).stdin(Stdio::null());
        let child =
            command.spawn().unwrap_or_else(|error| panic!("nginx: {error}; on Debian: apt-get install nginx-light"));
        let mut nginx = Nginx { child, address };
        until("nginx listening", || match TcpStream::connect(address) {
            Ok(_) => Ok(()),
            Err(error) => Err((error, nginx.child.try_wait(), std::fs::read_to_string(path("nginx.log")))),
        });
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Killed outright, the first process would leave its worker behind.
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            signal(self.child.id(), "TERM");
        }
        let _ = self.child.wait();
    }
}

/// Stands between a gateway and a node, and counts the connections that come in.
pub struct Relay {
    pub address: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Relay {
    pub fn start(fleet: &Fleet) -> Relay {
        let listener = TcpListener::bind((address(fleet, RELAY), 0)).unwrap();
        let (address, node, accepted) = (listener.local_addr().unwrap(), fleet.api(1), Arc::<AtomicUsize>::default());
        let count = Arc::clone(&accepted);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::Relaxed);
                let onward = TcpStream::connect(&node).unwrap();
                carry(stream.try_clone().unwrap(), onward.try_clone().unwrap());
                carry(onward, stream);
            }
        });
        Relay { address, accepted }
    }

    /// Connections so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        // Either end may go at any time, which ends the other.
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}
