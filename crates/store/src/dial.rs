//! How a connection is made: name, TCP, TLS, login. The only place that opens a socket. The cryptography is named here, not
//! left to whatever the program happens to be built with.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, ServerErrorKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::config::{BadConfig, RedisUrl, StoreConfig};
use crate::error::{NotUp, words_of};
use crate::link::Link;
use crate::shared::IN_FLIGHT_MAX;

/// Makes connections to one server.
pub(crate) struct Dialler {
    url: RedisUrl,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    timeout: Duration,
}

/// The task that moves a connection's bytes. Dropping it ends the connection.
#[derive(Debug)]
pub(crate) struct Driver {
    task: AbortHandle,
    ended: watch::Receiver<()>,
}

impl Dialler {
    pub(crate) fn new(config: &StoreConfig) -> Result<Dialler, BadConfig> {
        let url = config.url.clone();
        let tls = match (url.tls, &config.ca_file) {
            (false, None) => None,
            (false, Some(_)) => return Err(BadConfig::NoTls),
            (true, ca_file) => {
                let name = ServerName::try_from(url.host.clone()).map_err(|_| BadConfig::Host(url.host.clone()))?;
                Some((connector(ca_file.as_deref())?, name))
            }
        };
        Ok(Dialler { url, tls, timeout: config.connect_timeout })
    }

    /// One connection, logged in.
    pub(crate) async fn dial(&self) -> Result<Link, NotUp> {
        let late = |_| NotUp::Down(format!("no connection to {} within {:?}", self.url, self.timeout));
        tokio::time::timeout(self.timeout, self.try_dial()).await.map_err(late)?
    }

    async fn try_dial(&self) -> Result<Link, NotUp> {
        let unreachable = |error: io::Error| NotUp::Down(format!("{} is unreachable: {error}", self.url));
        let stream = TcpStream::connect((self.url.host.as_str(), self.url.port)).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        match &self.tls {
            None => self.log_in(stream).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await.map_err(|error| self.no_tls(&error))?;
                self.log_in(stream).await
            }
        }
    }

    async fn log_in(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Link, NotUp> {
        // Each call has a timeout of its own, outside. Room for every call that there may be, and for the heartbeat.
        let config =
            AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(IN_FLIGHT_MAX + 1);
        let made = MultiplexedConnection::new_with_config(&self.url.login, stream, config).await;
        let (connection, driver) = made.map_err(|error| self.no_login(&error))?;
        Ok(Link::new(connection, Driver::spawn(driver)))
    }

    /// Certificates do not mend themselves; a connection that broke may.
    fn no_tls(&self, error: &io::Error) -> NotUp {
        let why = format!("no TLS with {}: {error}", self.url);
        if error.kind() == io::ErrorKind::InvalidData { NotUp::Refused(why) } else { NotUp::Down(why) }
    }

    fn no_login(&self, error: &RedisError) -> NotUp {
        let why = format!("no login at {}: {}", self.url, words_of(error));
        let may_pass = error.is_io_error()
            || matches!(error.kind(), ErrorKind::Server(ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown))
            || why.contains("max number of clients");
        if may_pass { NotUp::Down(why) } else { NotUp::Refused(why) }
    }
}

impl Driver {
    fn spawn(driver: impl Future<Output = ()> + Send + 'static) -> Driver {
        let (alive, ended) = watch::channel(());
        let task = tokio::spawn(async move {
            let _alive = alive;
            driver.await;
        });
        Driver { task: task.abort_handle(), ended }
    }

    /// Waits until no more bytes are moved.
    pub(crate) async fn ended(&self) {
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    pub(crate) fn abort(&self) {
        self.task.abort();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.abort();
    }
}

fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, BadConfig> {
    let bad = |why: String| BadConfig::Certificates { file: ca_file.map(Path::to_owned), why };
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(path) => {
            for certificate in CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))? {
                let certificate = certificate.map_err(|error| bad(error.to_string()))?;
                roots.add(certificate).map_err(|error| bad(error.to_string()))?;
            }
        }
        // One that cannot be used among the many that a system has is no reason to trust none.
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    if roots.is_empty() {
        return Err(bad("there are none".to_owned()));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| bad(error.to_string()))?;
    Ok(TlsConnector::from(Arc::new(builder.with_root_certificates(roots).with_no_client_auth())))
}
