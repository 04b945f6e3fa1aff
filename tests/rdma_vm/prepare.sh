#!/usr/bin/env bash
# Makes what the virtual machine boots from, once:  prepare.sh FOLDER
# FOLDER then holds `kernel` (Debian's own, unpacked, not installed) and `initramfs` (busybox, the modules, init.sh).
# Exit code 77, with the reason, where the machine or the kernel cannot be had.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:?usage: prepare.sh FOLDER}
export PATH="$PATH:/usr/sbin:/sbin"

cannot() { echo "no virtual machine: $*"; exit 77; }

[ "$(uname -m)" = x86_64 ] || cannot "only x86-64 is emulated here"
for program in qemu-system-x86_64 busybox depmod modprobe cpio rdma apt-get apt-cache; do
  command -v "$program" > /dev/null || cannot "$program is missing; scripts/dependencies.sh test installs it"
done
busybox true || cannot "busybox does not run"

mkdir -p "$folder"
cd "$folder"
# rdma_rxe needs crc32_generic at run time, which its dependencies do not name.
wanted=(crc32_generic virtio_pci 9pnet_virtio 9p overlay ib_uverbs rdma_rxe rdma_ucm veth sch_prio cls_u32 act_gact)
version=$(apt-cache depends linux-image-amd64 2> /dev/null |
  sed -n 's/^ *Depends: linux-image-\([0-9.]*-[0-9]*-amd64\)$/\1/p' | head -1)
stamp="$version ${wanted[*]}"
if [ ! -e kernel ] || { [ -n "$version" ] && [ "$(cat stamp)" != "$stamp" ]; }; then
  [ -n "$version" ] || cannot "apt-cache knows no kernel package (linux-image-amd64)"
  rm -rf kernel initramfs modules unpacked download
  mkdir -p modules unpacked download
  (cd download && apt-get download -q "linux-image-$version") > download.log 2>&1 ||
    cannot "the kernel package linux-image-$version cannot be downloaded: $(tail -1 download.log)"
  dpkg -x download/linux-image-*.deb unpacked
  depmod -b unpacked "$version"
  number=100
  for module in "${wanted[@]}"; do
    modprobe -d unpacked -S "$version" --show-depends "$module" | sed -n 's/^insmod \(.*\.ko[^ ]*\).*/\1/p'
  done | awk '!seen[$0]++' | while read -r file; do
    number=$((number + 1))
    cp "$file" "modules/$number-$(basename "$file")"
  done
  cp "unpacked/boot/vmlinuz-$version" kernel.new
  rm -rf unpacked download
  echo "$stamp" > stamp
  mv kernel.new kernel
fi

if [ ! -e initramfs ] || [ "$here/init.sh" -nt initramfs ]; then
  rm -rf image
  mkdir -p image/bin image/proc image/sys image/dev image/lower image/upper image/root
  cp "$(command -v busybox)" image/bin/busybox
  cp -r modules image/modules
  cp "$here/init.sh" image/init
  chmod +x image/init
  (cd image && find . | cpio -o -H newc --quiet -R 0:0) | gzip -1 > initramfs.new
  mv initramfs.new initramfs
  rm -rf image
fi
