//! A component from its start to the signal that ends it.

#![expect(clippy::unwrap_used, reason = "what a test needs is there, or the test fails")]

use std::io;

use clap::Parser;
use liqo_kit::args::{Listen, LogArgs};
use liqo_kit::service::{self, Service};
use nix::sys::signal::{Signal, raise};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    logs: LogArgs,
}

#[tokio::test]
async fn a_component_tells_of_itself_until_it_is_asked_to_end() {
    let Line { logs } = Line::parse_from(["test", "-v=4"]);
    service::run("test", &logs, component).await.unwrap();
}

async fn component(service: Service) -> io::Result<()> {
    let loopback: Listen = "127.0.0.1:0".parse().unwrap();
    let health = service.serve_health(&loopback).await.unwrap().to_string();
    let metrics = service.serve_metrics(&loopback).await.unwrap().to_string();
    let check = service.health.ready.add("watches");

    assert!(ask(&health, "GET", "/healthz", "").await?.starts_with("HTTP/1.1 200"));
    assert!(ask(&health, "GET", "/readyz", "").await?.starts_with("HTTP/1.1 503"));
    check.pass();
    assert!(ask(&health, "GET", "/readyz", "").await?.starts_with("HTTP/1.1 200"));
    assert!(ask(&metrics, "GET", "/metrics", "").await?.ends_with("# EOF\n"));
    assert!(ask(&health, "PUT", "/log", "warn").await?.ends_with("warn"));

    raise(Signal::SIGTERM)?;
    service.stop.cancelled().await;
    Ok(())
}

async fn ask(address: &str, method: &str, path: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: {length}"
    );
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
