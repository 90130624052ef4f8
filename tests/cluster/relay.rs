//! An address that leads to one server and later to another, as a switch before a primary and its replica does; and a link that
//! stays open and passes nothing.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Connections to wherever the relay leads when they are made.
pub struct Relay {
    pub port: u16,
    way: Arc<Mutex<Way>>,
}

struct Way {
    to: u16,
    /// Both ends of each connection that passes bytes.
    open: Vec<[TcpStream; 2]>,
    /// How often connections were told to pass nothing more.
    frozen: u64,
}

impl Relay {
    /// A relay that leads to that port of this machine.
    pub fn to(port: u16) -> Relay {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let relay = Relay {
            port: listener.local_addr().unwrap().port(),
            way: Arc::new(Mutex::new(Way { to: port, open: Vec::new(), frozen: 0 })),
        };
        let way = Arc::clone(&relay.way);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let to = way.lock().unwrap().to;
                if let Ok(server) = TcpStream::connect(("127.0.0.1", to)) {
                    connect(client, server, &way);
                }
            }
        });
        relay
    }

    /// From now on it leads elsewhere; what was connected is cut off.
    pub fn lead_to(&self, port: u16) {
        let mut way = self.way.lock().unwrap();
        way.to = port;
        for end in way.open.drain(..).flatten() {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Connections that there are pass nothing any more, and stay open. New ones do.
    pub fn freeze(&self) {
        let mut way = self.way.lock().unwrap();
        way.frozen += 1;
    }

    /// What `redis.url` says of it, as TOML.
    pub fn toml(&self) -> String {
        format!("\"redis://127.0.0.1:{}\"", self.port)
    }
}

fn connect(client: TcpStream, server: TcpStream, way: &Arc<Mutex<Way>>) {
    let ends = || [client.try_clone().unwrap(), server.try_clone().unwrap()];
    let frozen = {
        let mut way = way.lock().unwrap();
        way.open.push(ends());
        way.frozen
    };
    for (from, to) in [(ends(), true), (ends(), false)] {
        let [one, other] = from;
        let (from, to) = if to { (one, other) } else { (other, one) };
        let way = Arc::clone(way);
        std::thread::spawn(move || pass(from, to, frozen, &way));
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, frozen: u64, way: &Mutex<Way>) {
    let mut piece = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        // What is frozen swallows all that comes, and never says so.
        if way.lock().unwrap().frozen == frozen && to.write_all(&piece[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
