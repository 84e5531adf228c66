# Builds and tests Ember on this machine with Windows, and says at the end what passed. For owners of machines that nobody has tested on:
# please send the last lines.
#
#   powershell -ExecutionPolicy Bypass -File scripts\check-here.ps1
#
# Needs Rust (https://rustup.rs) with the MSVC or the GNU toolchain. With cl.exe in PATH (a developer's command prompt of Visual Studio) it
# also builds and runs a program in C.
Set-Location (Join-Path $PSScriptRoot "..")
$work = Join-Path ([System.IO.Path]::GetTempPath()) ([System.IO.Path]::GetRandomFileName())
New-Item -ItemType Directory -Path $work | Out-Null
$results = @()
$failed = $false

function Step([string]$name, [scriptblock]$command) {
    Write-Host "== $name"
    $clock = [System.Diagnostics.Stopwatch]::StartNew()
    $log = Join-Path $work "$name.log"
    $global:LASTEXITCODE = 0
    try { & $command *> $log } catch { $_ | Out-File -Append $log; $global:LASTEXITCODE = 1 }
    $seconds = [int]$clock.Elapsed.TotalSeconds
    if ($LASTEXITCODE -eq 0) {
        $script:results += "passed  $name, $seconds s"
    } else {
        $script:results += "FAILED  $name, $seconds s"
        $script:failed = $true
        Get-Content $log -Tail 40
    }
    Write-Host $script:results[-1]
}

Step "library" { cargo build --release --lib --features capi }
Step "unit-tests" { cargo test --lib }
if (Get-Command cl.exe -ErrorAction SilentlyContinue) {
    Step "c" {
        Copy-Item target\release\ember.dll $work
        cl.exe /nologo /std:c11 /utf-8 /Iinclude examples\c\hello.c /Fo"$work\hello.obj" /Fe"$work\hello.exe" target\release\ember.dll.lib
        if ($LASTEXITCODE -eq 0) { & "$work\hello.exe" }
    }
} else {
    $results += "left out  c: there is no cl.exe in PATH"
}

Write-Host ""
$version = (Select-String -Path Cargo.toml -Pattern '^version = "(.*)"' | Select-Object -First 1).Matches[0].Groups[1].Value
Write-Host "Ember $version on $([System.Environment]::OSVersion.VersionString), $env:PROCESSOR_ARCHITECTURE, $(rustc --version)"
$results | ForEach-Object { Write-Host $_ }
Remove-Item -Recurse -Force $work
if ($failed) { exit 1 }
