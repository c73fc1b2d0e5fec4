# The curves of docs/results.md:  cd docs/results && gnuplot curves.gp
set datafile separator ","
set terminal svg size 900,400 font "sans-serif,13" background "white"
set output "fmnist-noniid2.svg"
set multiplot layout 1,2
set grid lc "#dddddd"
set border 3
set tics nomirror
set key bottom right
set yrange [40:95]
set ylabel "test accuracy, %"
set xlabel "round"
plot "fmnist-noniid2-fedavg.csv" using 1:(100*$2) skip 1 with lines lw 2 lc "#7f7f7f" title "FedAvg", \
     "fmnist-noniid2-fedmrn.csv" using 1:(100*$2) skip 1 with lines lw 2 lc "#d62728" title "FedMRN"
set xlabel "uploaded by all clients, MB (log scale)"
set logscale x
a = 0
b = 0
plot "fmnist-noniid2-fedavg.csv" using (a = a + $4/1e6, a):(100*$2) skip 1 with lines lw 2 lc "#7f7f7f" title "FedAvg", \
     "fmnist-noniid2-fedmrn.csv" using (b = b + $4/1e6, b):(100*$2) skip 1 with lines lw 2 lc "#d62728" title "FedMRN"
unset multiplot
