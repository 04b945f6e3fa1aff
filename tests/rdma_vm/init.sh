#!/bin/busybox sh
# The machine's first process: loads the modules, lays a writable layer over the host's root, and runs the results
# folder's run.sh inside it. That folder is a second share; what is written there is all that remains.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
for module in /modules/*; do
  insmod "$module" || echo "rdma_vm: module $module does not load"
done
share="trans=virtio,version=9p2000.L,msize=524288"
mount -t 9p -o "$share,ro,cache=loose" host /lower || poweroff -f
mount -t tmpfs none /upper
mkdir /upper/data /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work overlay /root || poweroff -f
for folder in proc sys dev; do mount --move /$folder /root/$folder; done
mount -t tmpfs none /root/run
mkdir -p /root/run/results /root/dev/shm /root/dev/pts
mount -t tmpfs none /root/dev/shm
mount -t devpts none /root/dev/pts
mount -t 9p -o "$share" results /root/run/results || poweroff -f
echo "rdma_vm: running"
chroot /root /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
  /bin/bash /run/results/run.sh < /root/dev/null > /root/run/results/guest.log 2>&1
echo "rdma_vm: ended with $?"
sync
poweroff -f
