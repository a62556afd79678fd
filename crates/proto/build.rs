//! Compiles the protobuf files in Rust (protox), so that a fresh machine needs no protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = [
        "sealwright/v1/sign.proto",
        "sealwright/v1/keys.proto",
        "sealwright/v1/signer.proto",
        "sealwright/v1/token.proto",
        "grpc/health/v1/health.proto",
    ];
    for file in files {
        println!("cargo:rerun-if-changed=proto/{file}");
    }
    let descriptors = protox::compile(files, ["proto"])?;
    let grpc = cfg!(feature = "grpc");
    tonic_prost_build::configure()
        .build_client(grpc)
        .build_server(grpc)
        // No `connect` that opens a connection of its own: clients share one channel.
        .build_transport(false)
        // Clear secrets have no Debug.
        .skip_debug(["sealwright.signer.v1.ImportSecret"])
        .compile_fds(descriptors)?;
    Ok(())
}
