// swift-tools-version: 6.0
// The Swift package for apps, by this repository's address. bindings/swift has the same with its examples and tests.
import PackageDescription

#if os(Linux)
/// An installed library, which pkg-config finds.
let library: [Target] = [.systemLibrary(name: "CEmber", path: "bindings/swift/Sources/CEmber", pkgConfig: "ember")]
#else
/// The XCFramework that `make ios` builds. A release has its address and its checksum in this place.
let library: [Target] = [
    .binaryTarget(name: "EmberC", path: "build/ios/Ember.xcframework"),
    .target(name: "CEmber", dependencies: ["EmberC"], path: "bindings/swift/Sources/CEmberApple"),
]
#endif

let package = Package(
    name: "Ember",
    platforms: [.macOS(.v14), .iOS(.v17)],
    products: [.library(name: "Ember", targets: ["Ember"])],
    targets: library + [.target(name: "Ember", dependencies: ["CEmber"], path: "bindings/swift/Sources/Ember")]
)
